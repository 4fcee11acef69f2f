"""What is checked before anything is spent, one line each."""

from __future__ import annotations

import datetime
import os
import secrets
from argparse import Namespace
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ledger_lab.checkpoints.candidate import hash_configs
from ledger_lab.costs import Price, load_price_book, resolve_price
from ledger_lab.errors import UserError
from ledger_lab.launch import World, read_world
from ledger_lab.ledger import declare_cohort, require_cohort_name
from ledger_lab.meters import package_versions
from ledger_lab.mirrors.start import require_mirrors
from ledger_lab.names import require_folder_name
from ledger_lab.panels import Panel, PanelIdentity
from ledger_lab.panels.checks import require_judgeable, task_panel
from ledger_lab.recipes.rules import positive
from ledger_lab.runners import Adapter, BatchPlan, load_adapter
from ledger_lab.runners.code import code_sha256
from ledger_lab.runners.command_line import launcher_args
from ledger_lab.runners.configs import require_values, resolve_configs
from ledger_lab.runners.description import describe_simulation
from ledger_lab.runners.process_group import ALONE, ProcessGroup
from ledger_lab.runners.session import held_out_config, require_runtime, resolve_device
from ledger_lab.tasks.registry import require_task, require_task_default
from ledger_lab.training.batch import check_batch, scale_learning_rate
from ledger_lab.training.beginning import Beginning, find_beginning
from ledger_lab.training.health_watch import parse_stop_on
from ledger_lab.training.ranks import require_divisible, require_same
from ledger_lab.training.resume import Resumption

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg


_SEED_LIMIT = 2**32
"""Seeds that numpy takes are below this number."""

_LONGEST_GRACE_S = 86_400


@dataclass(frozen=True, kw_only=True)
class TrainPlan:
    """A training that nothing speaks against."""

    run_id: str = ""
    run_dir: Path = Path()
    """Where the run is written; nowhere while its request is still being checked."""
    world: World
    """The processes of the training, and which of them this is."""
    task: str
    cohort: str | None
    overrides: list[str]
    agent: str | None
    """Name that the agent's configuration is registered by, where it was asked for."""
    adapter: Adapter
    env_cfg: ManagerBasedRLEnvCfg
    agent_cfg: Any
    launcher_args: dict[str, Any]
    device: str
    seed: int
    """Seed of the training; that of a process is its rank more, and stands in the configurations."""
    batch: BatchPlan
    scaled_lr: bool
    """Whether the learning rate was scaled to the batch; the override says to what."""
    panel: Panel
    simulation: dict[str, Any]
    """What the panel's identity needs to know of the simulation."""
    identity: PanelIdentity
    slots_cfg: ManagerBasedRLEnvCfg
    """The environment with its held-out slots; the training's own, where there are none."""
    held_out_slots: int
    """Held-out slots of this process."""
    eval_every: int | None
    stop_at_target: bool
    stop_on: list[str]
    """Health events that end the run."""
    price: Price
    config_sha256: dict[str, str]
    mirrors: list[str]
    timing: Literal["host", "synchronized"]
    save_state_every: int | None
    """Iterations between two saved states; 0 for none; ``None`` for as many as checkpoints, or sooner by time."""
    grace_s: float
    """How long an attempt may take to end once it was asked to [s]."""
    beginning: Beginning | None
    """Whose networks the run begins with; ``None`` where they are drawn, and when it goes on."""
    resumed: Resumption | None
    """What the run goes on from; ``None`` in its first attempt."""

    @property
    def attempt(self) -> int:
        """Number of the attempt."""
        return 1 if self.resumed is None else self.resumed.attempt

    @property
    def log(self) -> Path:
        """Where the libraries' output goes."""
        if not self.world.first:
            return self.run_dir / f"console-{self.attempt}-{self.world.rank}.log"
        return self.run_dir / ("console.log" if self.attempt == 1 else f"console-{self.attempt}.log")


def plan_training(
    args: Namespace, overrides: list[str], group: ProcessGroup = ALONE, resumed: Resumption | None = None
) -> TrainPlan:
    """Resolve and check a request. Nothing is written but the cohort's declaration and the run's empty directory.

    Args:
        args: Parsed command line of ``scripts/train.py``.
        overrides: Hydra overrides.
        group: The processes of the training, all of which come here.
        resumed: The run to go on with, whose directory and price are taken then.

    Returns:
        The plan.

    Raises:
        UserError: If the request can't be carried out.
    """
    plan = group.agree(lambda: _check(args, overrides, group.world, resumed))
    group.agree(lambda: require_same(group, _request(plan)))
    group.agree(lambda: group.try_out(plan.device))

    def begin() -> tuple[str, str]:
        if resumed is not None:
            return resumed.declared.run_id, str(resumed.run_dir)
        if args.cohort_size is not None:
            declare_cohort(args.log_root, args.cohort, args.cohort_size)
        run_id = secrets.token_hex(4)
        library, experiment = plan.adapter.library, plan.adapter.experiment(plan.agent_cfg)
        return run_id, str(_make_run_dir(args.log_root, library, experiment, run_id))

    run_id, path = group.first(begin)
    group.agree(lambda: _make_folder(Path(path), args.log_root))  # other machines may have disks of their own
    plan.env_cfg.log_dir = plan.slots_cfg.log_dir = path
    return replace(plan, run_id=run_id, run_dir=Path(path))


def _request(plan: TrainPlan) -> dict[str, Any]:
    """Return what all processes of a training must have been asked for, and the code that must do it."""
    return {
        "--task": plan.task,
        "--rl_library": plan.adapter.library,
        "--device": plan.device.partition(":")[0],
        "--num_envs": plan.env_cfg.scene.num_envs,
        "--seed": plan.seed,
        "--max_iterations": plan.batch.max_iterations,
        "--eval_every": plan.eval_every,
        "--stop_at_target": plan.stop_at_target,
        "--target": plan.panel.target_success,
        "the number of held-out slots": plan.held_out_slots,
        "the panel's id": plan.identity.id,
        "--checkpoint": plan.beginning and plan.beginning.told["sha256"],
        "the environment's configuration": plan.config_sha256["env"],
        "the agent's configuration": plan.config_sha256["agent"],
        **{f"the source of {name}": sha256 for name, sha256 in code_sha256(plan.task, plan.env_cfg).items()},
        **{f"the version of {name}": version for name, version in package_versions().items()},
    }


def _check(args: Namespace, overrides: list[str], world: World, resumed: Resumption | None) -> TrainPlan:
    """Resolve and check a request in one process."""
    read_world(os.environ, distributed=args.distributed)
    if args.nproc is not None:
        raise UserError(f"--nproc {args.nproc}: write it in full, to train.py itself")
    require_mirrors(args.mirror)
    today = datetime.date.today()
    if resumed is None:
        price = resolve_price(args.instance, args.usd_per_hour, load_price_book(args.prices), today=today)
    else:
        price = Price.from_dict(resumed.declared.price)
    _check_cohort(args.cohort, args.cohort_size)
    stop_on = parse_stop_on(args.stop_on)
    device = resolve_device(args.device, world)
    library = args.rl_library or require_task_default(args.task)
    adapter = load_adapter(library)
    registered = require_task(args.task, library, args.agent)
    panel = task_panel(args.task, args.panel or registered.get("default_panel"), args.target)
    if args.scale_lr:
        overrides = [*overrides, scale_learning_rate(args, adapter, overrides, world.size)]
    env_cfg, agent_cfg = resolve_configs(args.task, library, overrides, args.agent)

    if args.max_iterations is not None:
        _at_least_one("--max_iterations", args.max_iterations)
    agent_cfg = adapter.prepare(agent_cfg, device, seed=args.seed, max_iterations=args.max_iterations)
    require_values(agent_cfg, adapter)
    env_cfg.sim.device = device
    if args.num_envs is not None:
        env_cfg.scene.num_envs = _at_least_one("--num_envs", args.num_envs)
    for name, count in (("env.scene.num_envs", env_cfg.scene.num_envs), ("env.decimation", env_cfg.decimation)):
        _at_least_one(name, count)
    for name, seconds in (("env.sim.dt", env_cfg.sim.dt), ("env.episode_length_s", env_cfg.episode_length_s)):
        if wrong := positive(seconds):
            raise UserError(f"{name}={seconds}: {wrong}")
    if not args.no_eval:
        require_judgeable(panel, env_cfg)
        adapter.require_memoryless(agent_cfg)
        require_divisible(panel, world.size)
    seed = adapter.seed(agent_cfg)
    if not isinstance(seed, int) or not 0 <= seed <= _SEED_LIMIT - world.size:
        raise UserError(f"--seed {seed}: training seeds lie between 0 and {_SEED_LIMIT - world.size}")
    env_cfg.seed = seed + world.rank
    agent_cfg = adapter.with_seed(agent_cfg, seed + world.rank)
    require_folder_name(adapter.dialect.overrides["experiment_name"], adapter.experiment(agent_cfg))
    try:
        batch = adapter.plan(agent_cfg)
    except ValueError as error:
        raise UserError(f"the agent's configuration: {error}") from error
    check_batch(env_cfg.scene.num_envs, batch, by_flag=args.num_envs is not None)
    if args.eval_every is not None:
        _at_least_one("--eval_every", args.eval_every)
    if args.save_state_every is not None and args.save_state_every < 0:
        raise UserError(f"--save_state_every {args.save_state_every}: must not be negative")
    if not 0 < args.grace_s <= _LONGEST_GRACE_S:
        raise UserError(f"--grace_s {args.grace_s:g}: must lie above 0 and not above {_LONGEST_GRACE_S}, a day")
    config_hashes = hash_configs(env_cfg, agent_cfg, adapter)
    flags = {**launcher_args(args, device), "distributed": args.distributed and device != "cpu"}
    require_runtime(env_cfg, flags)
    simulation = describe_simulation(held_out_config(env_cfg, 1))
    held_out_slots = 0 if args.no_eval else len(panel.episodes) // world.size
    beginning = None
    if args.checkpoint is not None and resumed is None:
        beginning = find_beginning(args.checkpoint, args.log_root, adapter, env_cfg, agent_cfg)
    return TrainPlan(
        world=world,
        task=args.task,
        cohort=args.cohort,
        overrides=overrides,
        agent=args.agent,
        adapter=adapter,
        env_cfg=env_cfg,
        agent_cfg=agent_cfg,
        launcher_args=flags,
        device=device,
        seed=seed,
        batch=batch,
        scaled_lr=args.scale_lr,
        panel=panel,
        simulation=simulation,
        identity=PanelIdentity.of(panel, simulation),
        slots_cfg=held_out_config(env_cfg, held_out_slots, env_cfg.scene.num_envs) if held_out_slots else env_cfg,
        held_out_slots=held_out_slots,
        eval_every=args.eval_every,
        stop_at_target=args.stop_at_target,
        stop_on=stop_on,
        price=price,
        config_sha256=config_hashes,
        mirrors=args.mirror,
        timing=args.timing,
        save_state_every=args.save_state_every,
        grace_s=args.grace_s,
        beginning=beginning,
        resumed=resumed,
    )


def _at_least_one(name: str, value: int) -> int:
    """Refuse counts below one."""
    if value < 1:
        raise UserError(f"{name} {value}: must be at least 1")
    return value


def _check_cohort(cohort: str | None, size: int | None) -> None:
    """Refuse a cohort that can't be declared, whoever declares it."""
    if cohort is not None:
        require_cohort_name(cohort)
    if size is not None:
        _at_least_one("--cohort_size", size)
        if cohort is None:
            raise UserError(f"--cohort_size {size}: name the cohort with --cohort")


def _make_run_dir(log_root: Path, library: str, experiment: str, run_id: str) -> Path:
    """Create the directory of a run."""
    stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    run_dir = log_root / library / experiment / f"{stamp}_{run_id}"
    _make_folder(run_dir, log_root)
    return run_dir.resolve()


def _make_folder(run_dir: Path, log_root: Path) -> None:
    """See to it that there is a directory, and that it can be written to."""
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to --log_root {log_root}: {error.strerror}") from error
    if not os.access(run_dir, os.W_OK):
        raise UserError(f"cannot write to --log_root {log_root}: permission denied")
