"""Checks a request, and resolves it to a plan, before the training costs anything. Nothing is written here."""

from __future__ import annotations

import datetime
import os
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledger_lab.errors import UserError
from ledger_lab.ledger import Timing
from ledger_lab.ledger.costs import Price, load_price_book, resolve_price
from ledger_lab.ledger.libraries import require_library
from ledger_lab.ledger.meters import package_versions
from ledger_lab.names import require_folder_name
from ledger_lab.panels import ERROR_BUDGET, RULE_VERSION, Panel, PanelIdentity
from ledger_lab.panels.checks import require_judgeable, task_panel
from ledger_lab.panels.predicate import resolve_success
from ledger_lab.panels.replays import least_replays
from ledger_lab.reports.mirrors.start import require_mirrors
from ledger_lab.tasks.recipes.recipe_file import RecipeFile
from ledger_lab.tasks.recipes.rules import positive
from ledger_lab.tasks.registration import SYMMETRIC_AGENT
from ledger_lab.tasks.registry import default_panel, num_envs_on_gpu
from ledger_lab.training.batch import keep_minibatch_size, plan_batch, plan_threads, scale_learning_rate
from ledger_lab.training.beginning import Beginning, find_beginning
from ledger_lab.training.checkpoints.candidate import hash_configs
from ledger_lab.training.chosen_agent import with_agent
from ledger_lab.training.launch import World, read_world
from ledger_lab.training.minibatches import check_batch
from ledger_lab.training.ranks import require_own_gpus, require_same
from ledger_lab.training.recipe import requested_recipe, with_recipe
from ledger_lab.training.request import TrainRequest
from ledger_lab.training.resume import Resumption
from ledger_lab.training.runners import Adapter, BatchPlan, load_adapter
from ledger_lab.training.runners.code import changed_code, code_sha256, policy_code, scoring_code
from ledger_lab.training.runners.configs import require_values, resolve_configs
from ledger_lab.training.runners.description import describe_simulation
from ledger_lab.training.runners.physics_engine import require_memory, with_default_physics
from ledger_lab.training.runners.process_group import ALONE, ProcessGroup
from ledger_lab.training.runners.session import (
    gpu_model,
    gpu_uuid,
    held_out_config,
    require_runtime,
    resolve_device,
    unscored_config,
)
from ledger_lab.training.runners.threads import Threads
from ledger_lab.training.spread_slots import require_divisible

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg


_SEED_LIMIT = 2**32
"""NumPy accepts seeds below this number."""


@dataclass(frozen=True, kw_only=True)
class TrainPlan:
    """A checked training: the request, and what the request was resolved to."""

    request: TrainRequest
    run_id: str
    run_dir: Path
    """The run's directory; it need not exist yet."""
    world: World
    """The processes of the training, and which of them this is."""
    overrides: list[str]
    """Hydra overrides that rebuild the configurations: those of the request, and a scaled learning rate. If LedgerLab
    chose the physics engine, the overrides of the request contain this choice, too."""
    adapter: Adapter
    env_cfg: ManagerBasedRLEnvCfg
    agent_cfg: Any
    launcher_args: dict[str, Any]
    device: str
    seed: int
    """Seed of the training. The configurations hold the seed of the process: this seed plus the rank."""
    batch: BatchPlan
    threads: Threads
    """Threads of torch in this process."""
    panel: Panel
    identity: PanelIdentity
    slots_cfg: ManagerBasedRLEnvCfg
    """The environment with held-out slots; the training's own environment if there are no held-out slots."""
    held_out_slots: int
    """Held-out slots of this process, with those that replay episodes."""
    recipe: dict[str, Any] | None
    """What the recipe file of the run changes, by the names that are the same for all libraries; ``None`` without a
    file."""
    for_gpu: bool
    """Whether the number of environments is the task's default for a GPU, with a learning rate that is scaled to it."""
    price: Price
    config_sha256: dict[str, str]
    code_sha256: dict[str, str]
    """Hashes of the code that the task runs, by top-level package or module."""
    scoring_code: dict[str, str]
    """Hashes of the code that the policy and its scores depend on, by module."""
    beginning: Beginning | None
    """The checkpoint that the run starts with; ``None`` for random networks and for resumed runs."""
    resumed: Resumption | None
    """The state that the attempt resumes from; ``None`` in the first attempt."""

    @property
    def attempt(self) -> int:
        """Number of the attempt."""
        return 1 if self.resumed is None else self.resumed.attempt

    @property
    def verdict_rule(self) -> int:
        """Version of the rule of the verdict: the present one; for a resumed run, the one that it was declared with."""
        return RULE_VERSION if self.resumed is None else self.resumed.declared.verdict_rule

    @property
    def error_budget(self) -> float:
        """Error budget of the run: what the run of its checkpoint left; for a resumed run, what it declared."""
        if self.resumed is not None:
            return self.resumed.declared.error_budget
        return ERROR_BUDGET if self.beginning is None else self.beginning.error_budget

    @property
    def changed_code(self) -> dict[str, str]:
        """Code of the policy that has changed since the run was declared, with its hashes."""
        return {} if self.resumed is None else changed_code(self.scoring_code, self.resumed.declared.scoring_code)

    @property
    def timing(self) -> Timing:
        """How times are measured; unless requested otherwise, by events on a GPU, else on the host."""
        return self.request.timing or ("host" if self.device == "cpu" else "events")

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of all processes in one iteration."""
        return self.batch.horizon * self.env_cfg.scene.num_envs * self.world.size

    @property
    def log(self) -> Path:
        """File for the output of the libraries."""
        if not self.world.first:
            return self.run_dir / f"console-{self.attempt}-{self.world.rank}.log"
        return self.run_dir / ("console.log" if self.attempt == 1 else f"console-{self.attempt}.log")


def plan_training(request: TrainRequest, group: ProcessGroup = ALONE, resumed: Resumption | None = None) -> TrainPlan:
    """Resolve and check a request. Nothing is written.

    Args:
        request: The request; for a resumed run, the request that the run was declared with.
        group: The processes of the training; all of them call this.
        resumed: The run to resume; its directory and price are kept.

    Returns:
        The plan.

    Raises:
        UserError: If the request can't be carried out.
    """
    drawn = group.first(lambda: secrets.randbelow(_SEED_LIMIT // 2))
    plan = group.agree(lambda: _check(request, group.world, resumed, drawn))
    group.agree(lambda: require_same(group, _common(plan)))
    group.agree(lambda: require_own_gpus(group, gpu_uuid(plan.device)))
    group.agree(lambda: group.try_out(plan.device))
    run_id, path = group.first(lambda: (plan.run_id, str(plan.run_dir)))
    plan.env_cfg.log_dir = plan.slots_cfg.log_dir = path
    return replace(plan, run_id=run_id, run_dir=Path(path))


def _common(plan: TrainPlan) -> dict[str, Any]:
    """Return the parts of request and code that must be equal in all processes."""
    return {
        "--task": plan.request.task,
        "--rl_library": plan.adapter.library,
        "--device": plan.device.partition(":")[0],
        "the model of the GPU": gpu_model(plan.device),
        "--num_envs": plan.env_cfg.scene.num_envs,
        "--seed": plan.seed,
        "--max_iterations": plan.batch.max_iterations,
        "--limit_s": plan.request.limit_s,
        "--eval_every": plan.request.eval_every,
        "--stop_at_target": plan.request.stop_at_target,
        "--target": plan.panel.target_success,
        "the number of held-out slots": plan.held_out_slots,
        "the panel's id": plan.identity.id,
        "--checkpoint": plan.beginning and plan.beginning.began_from["sha256"],
        "the error budget": plan.error_budget,
        "the environment's configuration": plan.config_sha256["env"],
        "the agent's configuration": plan.config_sha256["agent"],
        **{f"the source of {name}": sha256 for name, sha256 in plan.code_sha256.items()},
        **{f"the version of {name}": version for name, version in package_versions().items()},
    }


def _check(request: TrainRequest, world: World, resumed: Resumption | None, drawn: int) -> TrainPlan:
    """Resolve and check a request in one process.

    Args:
        request: The request.
        world: The processes of the training.
        resumed: The run to resume.
        drawn: Seed of a new training whose request names none.
    """
    read_world(os.environ, distributed=request.distributed)
    require_mirrors(request.mirror)
    today = datetime.date.today()
    if resumed is None:
        price = resolve_price(request.instance, request.usd_per_hour, load_price_book(request.prices), today=today)
    else:
        price = Price.from_dict(resumed.declared.price)
    device = resolve_device(request.device, world)
    if request.timing == "events" and device == "cpu":
        raise UserError("--timing events: only a GPU has events, and this training uses the CPU: leave --timing out")
    if request.rl_library is not None:
        require_library(request.rl_library)
    library, request = with_agent(request)
    adapter = load_adapter(library, request.agent)
    panel = task_panel(request.task, request.panel or default_panel(request.task), request.target)
    recipe = requested_recipe(request, adapter.dialect) if resumed is None else None
    if resumed is None:  # a resumed run has the seed, the recipe and the physics engine that it declared
        if request.seed is None and adapter.dialect.seed not in _overridden(request):
            request = replace(request, seed=drawn)
        request = request if recipe is None else with_recipe(request, recipe, adapter.dialect)
        request = replace(request, overrides=with_default_physics(request.task, request.overrides, device))
    overrides = list(request.overrides)
    env_cfg, agent_cfg = resolve_configs(request.task, library, overrides, request.agent)

    agent_cfg = adapter.prepare(agent_cfg, device, seed=request.seed, max_iterations=request.max_iterations)
    require_values(agent_cfg, adapter)
    adapter.require_learnable(agent_cfg)
    env_cfg.sim.device = device
    for_gpu = _num_envs_for_gpu(request, device)
    if resumed is not None and resumed.declared.num_envs != for_gpu:
        for_gpu = None  # an earlier version had another default
    if request.num_envs is not None:
        env_cfg.scene.num_envs = request.num_envs
    elif for_gpu is not None:
        env_cfg.scene.num_envs = for_gpu
    for name, count in (("env.scene.num_envs", env_cfg.scene.num_envs), ("env.decimation", env_cfg.decimation)):
        if count < 1:
            raise UserError(f"{name} {count}: must be at least 1")
    for name, seconds in (("env.sim.dt", env_cfg.sim.dt), ("env.episode_length_s", env_cfg.episode_length_s)):
        if wrong := positive(seconds):
            raise UserError(f"{name}={seconds}: {wrong}")
    if not request.no_eval:
        resolve_success(panel)
        require_judgeable(panel, env_cfg)
        adapter.require_memoryless(agent_cfg)
        require_divisible(panel, world.size)
    seed = adapter.seed(agent_cfg)
    if not isinstance(seed, int) or not 0 <= seed <= _SEED_LIMIT - world.size:
        raise UserError(f"--seed {seed}: training seeds lie between 0 and {_SEED_LIMIT - world.size}")
    env_cfg.seed = seed + world.rank
    agent_cfg = adapter.with_seed(agent_cfg, seed + world.rank)
    experiment = adapter.experiment(agent_cfg)
    require_folder_name(adapter.dialect.overrides["experiment_name"], experiment)
    batch = plan_batch(adapter, agent_cfg)
    check_batch(env_cfg.scene.num_envs, batch, by_flag=request.num_envs is not None)
    if batch.replay is not None:
        batch.replay.require_update(batch.max_iterations * batch.horizon, overlaps=batch.overlaps)
    rule = request.scale_lr
    if batch.replay is not None and (rule is not None or request.keep_minibatch_size):
        raise UserError(
            "--scale_lr and --keep_minibatch_size adapt to the batch of an iteration, and an algorithm with a replay "
            f"memory has none: leave them out, or set {adapter.dialect.overrides['batch_size']}"
        )
    if request.save_replay and batch.replay is None:
        raise UserError(
            f"--save_replay: {adapter.dialect.algorithm} learns without a replay memory: leave it out, or use "
            "--algorithm sac"
        )
    request.require_saveable_replay(world.size)
    if request.keep_minibatch_size:
        overrides.append(keep_minibatch_size(request, adapter, agent_cfg, env_cfg.scene.num_envs, world.size))
        batch = plan_batch(adapter, agent_cfg)
    rate = adapter.dialect.overrides["learning_rate"]
    if (
        for_gpu is not None
        and not request.keep_minibatch_size
        and all(rate != name.partition("=")[0] for name in overrides)
    ):
        rule = rule or "sqrt"
    if rule is not None:
        effective_batch = batch.effective_batch(env_cfg.scene.num_envs * world.size)
        overrides.append(scale_learning_rate(request, rule, adapter, agent_cfg, effective_batch))
    flags = {**request.launcher_args(device), "distributed": request.distributed and device != "cpu"}
    config_hashes = hash_configs(env_cfg, agent_cfg, adapter)
    require_runtime(env_cfg, flags, request.cpu_threads)
    code = scoring_code(panel, env_cfg)
    simulation = {**describe_simulation(held_out_config(env_cfg, 1)), "code": code}
    if request.no_eval:
        held_out_slots, slots_cfg = 0, unscored_config(env_cfg)
    else:
        episodes = len(panel.episodes) // world.size
        held_out_slots = episodes + least_replays(env_cfg)
        slots_cfg = held_out_config(env_cfg, episodes, env_cfg.scene.num_envs)
    require_memory(request.task, slots_cfg, world.local_size)
    beginning = None
    if request.checkpoint is not None and resumed is None:
        beginning = find_beginning(
            request.checkpoint,
            request.log_root,
            adapter,
            env_cfg,
            agent_cfg,
            trust_run=request.trust_run,
            allow_changed_code=request.allow_changed_code,
        )
        if not request.no_eval:
            beginning.require_provable(panel)
    if resumed is None:
        run_id, stamp = secrets.token_hex(8), datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        run_dir = (request.log_root / library / experiment / f"{stamp}_{run_id}").resolve()
    else:
        run_id, run_dir = resumed.declared.run_id, resumed.run_dir
    return TrainPlan(
        request=request,
        run_id=run_id,
        run_dir=run_dir,
        world=world,
        overrides=overrides,
        adapter=adapter,
        env_cfg=env_cfg,
        agent_cfg=agent_cfg,
        launcher_args=flags,
        device=device,
        seed=seed,
        batch=batch,
        threads=plan_threads(adapter, agent_cfg, batch, env_cfg.scene.num_envs, device),
        panel=panel,
        identity=PanelIdentity.of(panel, simulation),
        slots_cfg=slots_cfg,
        held_out_slots=held_out_slots,
        recipe=_recipe_of(recipe, resumed),
        for_gpu=for_gpu is not None,
        price=price,
        config_sha256=config_hashes,
        code_sha256=code_sha256(request.task, env_cfg, agent_cfg),
        scoring_code={**code, **policy_code(request.task, env_cfg, agent_cfg)},
        beginning=beginning,
        resumed=resumed,
    )


def _recipe_of(file: RecipeFile | None, resumed: Resumption | None) -> dict[str, Any] | None:
    """Return what the recipe file of a run changes; a resumed run has declared it."""
    if resumed is not None:
        return resumed.declared.recipe
    return None if file is None else file.to_data()


def _num_envs_for_gpu(request: TrainRequest, device: str) -> int | None:
    """Return the task's default number of environments for a GPU; the learning rate is then scaled to the batch.

    Returns:
        ``None`` on a CPU, or if the user chose the number of environments, or an agent configuration other than that of
        PPO, with or without mirrored samples.
    """
    other_agent = request.agent not in (None, SYMMETRIC_AGENT)
    chosen = other_agent or request.num_envs is not None or "env.scene.num_envs" in _overridden(request)
    return None if device == "cpu" or chosen else num_envs_on_gpu(request.task)


def _overridden(request: TrainRequest) -> list[str]:
    """Return the names of the settings that the user overrides."""
    return [override.partition("=")[0].lstrip("+") for override in request.overrides]
