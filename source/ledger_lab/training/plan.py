"""Checks a request, and resolves it to a plan, before the training costs anything. Nothing is written here."""

from __future__ import annotations

import datetime
import os
import secrets
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger import RunDeclared, Timing
from ledger_lab.ledger.costs.prices import load_price_book, resolve_price
from ledger_lab.ledger.libraries import PPO, agent_key, algorithm_of, library_with, require_library
from ledger_lab.ledger.meters.host import git_facts, hardware_facts, package_versions
from ledger_lab.names import require_folder_name
from ledger_lab.panels import ERROR_BUDGET, RULE_VERSION, Panel, PanelIdentity
from ledger_lab.panels.checks import require_judgeable, task_panel
from ledger_lab.panels.physics import physics_name
from ledger_lab.panels.predicate import resolve_success
from ledger_lab.panels.replays import least_replays
from ledger_lab.reports.loggers.sink import require_loggers
from ledger_lab.tasks.recipes.settings import positive, write_setting
from ledger_lab.tasks.registry import default_panel, num_envs_on_gpu, require_task, require_task_default
from ledger_lab.training.batch import keep_minibatch_size, plan_batch, plan_threads, scale_learning_rate
from ledger_lab.training.launch import World, read_world
from ledger_lab.training.minibatches import check_batch
from ledger_lab.training.ranks import require_divisible, require_own_gpus, require_same
from ledger_lab.training.request import TrainRequest
from ledger_lab.training.requested import requested_recipe, with_recipe
from ledger_lab.training.resume import Resumption
from ledger_lab.training.runners import Adapter, BatchPlan, load_adapter
from ledger_lab.training.runners.configs import require_values, resolve_configs
from ledger_lab.training.runners.description import (
    changed_code,
    code_sha256,
    describe_simulation,
    hash_configs,
    policy_code,
    scoring_code,
)
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

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

    from ledger_lab.training.beginning import Beginning

_SEED_LIMIT = 2**32
"""NumPy accepts seeds below this number."""

_OF_A_PROCESS = ("run_id", "device", "versions", "code_sha256", "scoring_code", "git", "hardware", "command", "request")
"""Fields of a declaration that may differ between the processes of a run, or are compared in another form."""


@dataclass(frozen=True, kw_only=True)
class TrainPlan:
    """A checked training: its declaration, and what this process needs to carry it out."""

    request: TrainRequest
    declared: RunDeclared
    """The declaration of the run. For a resumed run, the one that it would get now."""
    run_dir: Path
    """The run's directory; it need not exist yet."""
    world: World
    """The processes of the training, and which of them this is."""
    adapter: Adapter
    env_cfg: ManagerBasedRLEnvCfg
    agent_cfg: Any
    launcher_args: dict[str, Any]
    batch: BatchPlan
    threads: Threads
    """Threads of torch in this process."""
    panel: Panel
    slots_cfg: ManagerBasedRLEnvCfg
    """The environment with held-out slots; the training's own environment if there are no held-out slots."""
    for_gpu: bool
    """Whether the number of environments is the task's default for a GPU, with a learning rate that is scaled to it."""
    beginning: Beginning | None
    """The checkpoint that the run starts with; ``None`` for random networks and for resumed runs."""
    resumed: Resumption | None
    """The state that the attempt resumes from; ``None`` in the first attempt."""

    @property
    def device(self) -> str:
        """Device of this process."""
        return self.declared.device

    @property
    def attempt(self) -> int:
        """Number of the attempt."""
        return 1 if self.resumed is None else self.resumed.attempt

    @property
    def changed_code(self) -> dict[str, str]:
        """Code of the policy that has changed since the run was declared, with its hashes."""
        now = self.declared.scoring_code or {}
        return {} if self.resumed is None else changed_code(now, self.resumed.declared.scoring_code)

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
    run_id, path = group.first(lambda: (plan.declared.run_id, str(plan.run_dir)))
    plan.env_cfg.log_dir = plan.slots_cfg.log_dir = path
    return replace(plan, declared=replace(plan.declared, run_id=run_id), run_dir=Path(path))


def _common(plan: TrainPlan) -> dict[str, Any]:
    """Return the parts of request and code that must be equal in all processes."""
    declared = plan.declared
    return {
        **{name: value for name, value in declared.to_data().items() if name not in _OF_A_PROCESS},
        "limit_s": plan.request.limit_s,
        "device": plan.device.partition(":")[0],
        "the model of the GPU": gpu_model(plan.device),
        **{f"the source of {name}": sha256 for name, sha256 in declared.code_sha256.items()},
        **{f"the version of {name}": version for name, version in declared.versions.items()},
    }


def with_agent(request: TrainRequest) -> tuple[str, TrainRequest]:
    """Return the library of a request, and the request with the agent configuration that its algorithm selects.

    Args:
        request: The request.

    Returns:
        The library's name, and a request whose ``agent`` is ``None`` for the library's usual configuration.

    Raises:
        UserError: If the task or the library is unknown, one of them does not have the algorithm, or the request names
            a configuration of another algorithm.
    """
    library = request.rl_library or require_task_default(request.task)
    agent, algorithm = request.agent, request.algorithm
    if algorithm is not None:
        library = request.rl_library or library_with(algorithm, library)
        registered, key = require_task(request.task, library), agent_key(library, algorithm)
        if agent is not None and algorithm_of(library, agent) != algorithm:
            raise UserError(
                f"--agent {agent}: it is no configuration of --algorithm {algorithm}: leave one of them out"
            )
        if agent is None and key not in registered:
            raise UserError(
                f"--algorithm {algorithm}: task {request.task} has no configuration for it: register one as {key}, or "
                "use another algorithm or task"
            )
        agent = agent or (None if algorithm == PPO else key)
    require_task(request.task, library, agent)
    return library, replace(request, agent=agent)


def _check(request: TrainRequest, world: World, resumed: Resumption | None, drawn: int) -> TrainPlan:
    """Resolve and check a request in one process.

    Args:
        request: The request.
        world: The processes of the training.
        resumed: The run to resume.
        drawn: Seed of a new training whose request names none.
    """
    read_world(os.environ, distributed=request.distributed)
    require_loggers(request.logger)
    then = None if resumed is None else resumed.declared
    if then is None:
        book, today = load_price_book(request.prices), datetime.date.today()
        price = resolve_price(request.instance, request.usd_per_hour, book, today=today).to_dict()
    else:
        price = then.price
    device = resolve_device(request.device, world)
    if request.timing == "events" and device == "cpu":
        raise UserError("--timing events: only a GPU has events, and this training uses the CPU: leave --timing out")
    if request.rl_library is not None:
        require_library(request.rl_library)
    library, request = with_agent(request)
    adapter = load_adapter(library, request.agent)
    panel = task_panel(request.task, request.panel or default_panel(request.task), request.target)
    recipe = None if then is None else then.recipe
    if then is None:  # a resumed run has the seed, the recipe and the physics engine that it declared
        if request.seed is None and adapter.dialect.seed not in _overridden(request):
            request = replace(request, seed=drawn)
        if (file := requested_recipe(request, adapter.dialect)) is not None:
            request, recipe = with_recipe(request, file, adapter.dialect), file.to_data()
        request = replace(request, overrides=with_default_physics(request.task, request.overrides, device))
    overrides = list(request.overrides)
    env_cfg, agent_cfg = resolve_configs(request.task, library, overrides, request.agent)

    agent_cfg = adapter.prepare(agent_cfg, device, seed=request.seed, max_iterations=request.max_iterations)
    require_values(agent_cfg, adapter)
    mirrored = adapter.symmetry(agent_cfg)
    if mirrored is not None and request.no_symmetry:
        if given := next((each for each in overrides if each.lstrip("+").startswith(f"{mirrored}.")), None):
            raise UserError(f"override {given}: --no_symmetry switches mirrored samples off: leave one of them out")
        write_setting(agent_cfg, mirrored, None)
        overrides.append(f"{mirrored}=null")
    for_gpu = _num_envs_for_gpu(request, device)
    env_cfg.sim.device = device
    env_cfg.scene.num_envs = num_envs = request.num_envs or for_gpu or env_cfg.scene.num_envs
    for name, count in (("env.scene.num_envs", num_envs), ("env.decimation", env_cfg.decimation)):
        if count < 1:
            raise UserError(f"{name} {count}: must be at least 1")
    for name, seconds in (("env.sim.dt", env_cfg.sim.dt), ("env.episode_length_s", env_cfg.episode_length_s)):
        if wrong := positive(seconds):
            raise UserError(f"{name}={seconds}: {wrong}")
    if request.eval:
        resolve_success(panel)
        require_judgeable(panel, env_cfg)
        require_divisible(panel, world.size)
    seed = adapter.seed(agent_cfg)
    if not isinstance(seed, int) or not 0 <= seed <= _SEED_LIMIT - world.size:
        raise UserError(f"--seed {seed}: training seeds lie between 0 and {_SEED_LIMIT - world.size}")
    env_cfg.seed = seed + world.rank
    agent_cfg = adapter.with_seed(agent_cfg, seed + world.rank)
    experiment = adapter.experiment(agent_cfg)
    require_folder_name(adapter.dialect.overrides["experiment_name"], experiment)
    batch = _fit_batch(request, world, adapter, agent_cfg, num_envs, overrides, for_gpu=for_gpu is not None)
    flags = {**request.launcher_args(device), "distributed": request.distributed and device != "cpu"}
    require_runtime(env_cfg, flags, request.cpu_threads)
    config_sha256 = hash_configs(env_cfg, agent_cfg, adapter)
    code = scoring_code(panel, env_cfg)
    identity = PanelIdentity.of(panel, {**describe_simulation(held_out_config(env_cfg, 1)), "code": code})
    if not request.eval:
        held_out_slots, slots_cfg = 0, unscored_config(env_cfg)
    else:
        episodes = len(panel.episodes) // world.size
        held_out_slots = episodes + least_replays(env_cfg)
        slots_cfg = held_out_config(env_cfg, episodes, num_envs)
    require_memory(request.task, slots_cfg, world.local_size)
    beginning = None
    if request.checkpoint is not None and then is None:
        from ledger_lab.training.beginning import find_beginning  # with the reports, which few trainings need

        beginning = find_beginning(
            request.checkpoint,
            request.log_root,
            adapter,
            env_cfg,
            agent_cfg,
            trust_run=request.trust_run,
            allow_changed_code=request.allow_changed_code,
        )
        if request.eval:
            beginning.require_provable(panel)
    run_id = secrets.token_hex(8) if then is None else then.run_id
    began_from = None if beginning is None else beginning.began_from
    error_budget = ERROR_BUDGET if beginning is None else beginning.error_budget
    timing: Timing = request.timing or ("host" if device == "cpu" else "events")
    memory_bytes = None if device == "cpu" else torch.cuda.get_device_properties(device).total_memory
    threads = plan_threads(adapter, agent_cfg, batch, num_envs, device)
    declared = RunDeclared(
        run_id=run_id,
        cohort=request.cohort,
        task=request.task,
        rl_library=library,
        experiment=experiment,
        overrides=overrides,
        agent=request.agent,
        symmetry=mirrored is not None and not request.no_symmetry,
        recipe=recipe,
        seed=seed,
        device=device,
        num_envs=num_envs,
        world_size=world.size,
        machines=world.machines,
        max_iterations=batch.max_iterations,
        horizon=batch.horizon,
        epochs=batch.epochs,
        minibatches=batch.minibatches_of(num_envs),
        panel=panel.source,
        panel_id=identity.id,
        panel_fields=identity.fields,
        target_success=panel.target_success,
        held_out_slots=held_out_slots,
        eval_every=request.eval_every,
        save_state_every=request.save_state_every,
        stop_at_target=request.stop_at_target,
        error_budget=error_budget if then is None else then.error_budget,
        verdict_rule=RULE_VERSION if then is None else then.verdict_rule,
        stop_on=list(request.stop_on),
        physics=physics_name(env_cfg),
        timing=timing,
        price=price,
        config_sha256=config_sha256,
        versions=package_versions(),
        code_sha256=code_sha256(request.task, env_cfg, agent_cfg),
        scoring_code={**code, **policy_code(request.task, env_cfg, agent_cfg)},
        began_from=began_from if then is None else then.began_from,
        git=git_facts(Path(__file__).parent),
        hardware={
            **hardware_facts(),
            "act_threads": threads.act,
            "learn_threads": threads.learn,
            "accelerator": gpu_model(device),
            "accelerator_memory_bytes": memory_bytes,
        },
        command=sys.argv,
        request=request.to_data(),
    )
    stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    new_dir = (request.log_root / library / experiment / f"{stamp}_{run_id}").resolve()
    return TrainPlan(
        request=request,
        declared=declared,
        run_dir=new_dir if resumed is None else resumed.run_dir,
        world=world,
        adapter=adapter,
        env_cfg=env_cfg,
        agent_cfg=agent_cfg,
        launcher_args=flags,
        batch=batch,
        threads=threads,
        panel=panel,
        slots_cfg=slots_cfg,
        for_gpu=for_gpu is not None,
        beginning=beginning,
        resumed=resumed,
    )


def _fit_batch(
    request: TrainRequest,
    world: World,
    adapter: Adapter,
    agent_cfg: Any,
    num_envs: int,
    overrides: list[str],
    *,
    for_gpu: bool,
) -> BatchPlan:
    """Adapt learning rate and minibatches to the batch, add overrides that do the same, and return the batch."""
    dialect = adapter.dialect
    batch = plan_batch(adapter, agent_cfg)
    check_batch(num_envs, batch, by_flag=request.num_envs is not None)
    if batch.replay is not None:
        batch.replay.require_update(batch.max_iterations * batch.horizon)
        if request.scale_lr or request.keep_minibatch_size:
            raise UserError(
                "--scale_lr and --keep_minibatch_size adapt to the batch of an iteration, and an algorithm with a "
                f"replay memory has none: leave them out, or set {dialect.overrides['batch_size']}"
            )
        request.require_saveable_replay(world.size)
        return batch
    if request.save_replay:
        raise UserError(
            f"--save_replay: {dialect.algorithm} learns without a replay memory: leave it out, or use --algorithm sac"
        )
    if request.keep_minibatch_size:
        overrides.append(keep_minibatch_size(request, adapter, agent_cfg, num_envs, world.size))
        batch = plan_batch(adapter, agent_cfg)
    rule, rate = request.scale_lr, dialect.overrides["learning_rate"]
    if for_gpu and not request.keep_minibatch_size and rate not in _overridden(request):
        rule = rule or "sqrt"
    if rule is not None:
        effective_batch = batch.effective_batch(num_envs * world.size)
        overrides.append(scale_learning_rate(request, rule, adapter, agent_cfg, effective_batch))
    return batch


def _num_envs_for_gpu(request: TrainRequest, device: str) -> int | None:
    """Return the task's default number of environments for a GPU; the learning rate is then scaled to the batch.

    Returns:
        ``None`` on a CPU, or if the user chose the number of environments, or another agent configuration.
    """
    chosen = request.agent is not None or request.num_envs is not None or "env.scene.num_envs" in _overridden(request)
    return None if device == "cpu" or chosen else num_envs_on_gpu(request.task)


def _overridden(request: TrainRequest) -> list[str]:
    """Return the names of the settings that the user overrides."""
    return [override.partition("=")[0].lstrip("+") for override in request.overrides]
