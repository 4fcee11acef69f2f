"""``scripts/train.py``: all steps of a run, in order."""

from __future__ import annotations

import functools
import itertools
import math
import os
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import torch
from isaaclab_rl.entrypoints.common import dump_train_configs
from rich.console import Console

from ledger_lab.errors import FirstErrorStack, UserError
from ledger_lab.files import make_folder, whole_file
from ledger_lab.ledger import CheckpointSaved, Journal, Status, declare_cohort
from ledger_lab.ledger.meters.compilation import metered_compilation
from ledger_lab.ledger.meters.cuda_timer import CudaTimer
from ledger_lab.ledger.meters.host import git_changes
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.ledger.redaction import Redactor
from ledger_lab.ledger.storage import require_storage
from ledger_lab.panels.capacity import capacity_told
from ledger_lab.panels.slots import HeldOutSlots
from ledger_lab.panels.view import TrainingView
from ledger_lab.reports.loggers.sink import start_loggers
from ledger_lab.reports.terminal.console import Terminal
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.training.health import HealthMonitor, Settings
from ledger_lab.training.health.monitor import HealthWatch
from ledger_lab.training.judge import Judge
from ledger_lab.training.launch import read_world
from ledger_lab.training.launch.world import note_run, read_job
from ledger_lab.training.loop import EpisodeEndings, TimeLimit, TrainingLoop, record_checkpoint
from ledger_lab.training.plan import TrainPlan, plan_training
from ledger_lab.training.ranks import share_of
from ledger_lab.training.request import TrainRequest
from ledger_lab.training.resume import OVER, find_resumption, require_same_declaration
from ledger_lab.training.runners import Policy, Trainer
from ledger_lab.training.runners.checkpoint_file import require_recorded_hash
from ledger_lab.training.runners.collectives import metered_collectives
from ledger_lab.training.runners.process_group import ALONE, ProcessGroup, joined
from ledger_lab.training.runners.recorded_calls import lossy_event_files
from ledger_lab.training.runners.session import (
    environment,
    gpu_memory_bytes,
    peak_gpu_memory_bytes,
    recorded_physics,
    simulation_app,
)
from ledger_lab.training.show import (
    is_refused,
    show_building,
    show_built,
    show_failure,
    show_loss,
    show_reasons,
    show_replay,
    show_settings,
    show_trouble,
)
from ledger_lab.training.state import SimulationState, StateKeeper, remove_states
from ledger_lab.training.supervision.attempt import Attempt, Begin, Link, attempt_life
from ledger_lab.training.writer import RunWriter

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def train_run(
    argv: Sequence[str],
    started_ns: int,
    link: Link,
    judge: type[Judge] = Judge,
    loop: type[TrainingLoop] = TrainingLoop,
) -> NoReturn:
    """Train as the command line requests, and score policies during the training.

    Args:
        argv: Command line without the program's name.
        started_ns: When the program began, on the clock of :func:`time.perf_counter_ns`.
        link: Connection to the supervisor of this process.
        judge: Judges the policies; benchmarks pass a class of their own.
        loop: Runs the training loop; benchmarks pass a class of their own.

    Raises:
        SystemExit: Always; with status 0 only if all work was done.
        UserError: If the request can't be carried out; no row was written then.
    """
    request = TrainRequest.parse(argv)
    world = read_world(os.environ, distributed=request.distributed)
    read_job(os.environ)  # refused before anything is written
    terminal = Terminal(quiet_libraries=request.quiet_libraries, speaks=world.first, recorded=True)
    try:
        on_gpu = request.device != "cpu" and torch.cuda.is_available()
        with joined(world, on_gpu=on_gpu, allow_public_address=request.allow_public_address) as group:
            plan = _plan(request, group)
            make_run_dir(plan, group)
            _carry_out(plan, group, terminal, started_ns, link, judge, loop)
    finally:
        terminal.restore()


def _plan(request: TrainRequest, group: ProcessGroup) -> TrainPlan:
    """Check a request for a new run, or for the next attempt of a run."""
    if request.resume is None:
        return plan_training(request, group)
    request, resumed = find_resumption(request, group)
    plan = plan_training(request, group, resumed)
    resumed = require_same_declaration(plan.declared, resumed, group, request.allow_changed_code)
    return replace(plan, resumed=resumed)


def make_run_dir(plan: TrainPlan, group: ProcessGroup = ALONE) -> None:
    """Declare the cohort of a planned run if the request gives its size, and make the run's directory.

    Args:
        plan: The plan.
        group: The processes of the training; all of them call this, because machines may have separate disks.

    Raises:
        UserError: If the cohort was declared with another size, or the directory can't hold a ledger.
    """
    request = plan.request
    named = f"--log_root {request.log_root}" if plan.resumed is None else str(plan.run_dir)

    def declare() -> None:
        if plan.resumed is None and request.cohort is not None and request.cohort_size is not None:
            declare_cohort(request.log_root, request.cohort, request.cohort_size)

    def make() -> None:
        make_folder(plan.run_dir, named)
        require_storage(plan.run_dir, named)

    group.first(declare)
    group.agree(make)


def _carry_out(
    plan: TrainPlan,
    group: ProcessGroup,
    terminal: Terminal,
    started_ns: int,
    link: Link,
    judge: type[Judge],
    loop: type[TrainingLoop],
) -> NoReturn:
    """Declare the run, begin its attempt, train and judge, and end the attempt."""
    console, rank = terminal.console, plan.world.rank
    supervision = plan.run_dir / f"journal-{plan.attempt}-supervisor{f'-{rank}' if rank else ''}.jsonl"
    begin = Begin(
        journals={supervision: plan.declared.run_id},
        attempt=plan.attempt,
        rank=rank,
        device=plan.device,
        grace_s=plan.request.grace_s,
        log=plan.log,
    )
    with ExitStack() as shutdown:
        with ExitStack() as life:
            with _errors_of_beginning(plan):
                writer = _begin(plan, group, started_ns, link, shutdown, console)
                terminal.keep_log(plan.log)  # a log without journals shows that the journals were removed
                building = functools.partial(show_building, console)
                built = shutdown.enter_context(metered_compilation(writer.clock, building))
                shutdown.enter_context(metered_collectives(writer.clock))
                peak = functools.partial(peak_gpu_memory_bytes, plan.device)
                attempt = life.enter_context(attempt_life(writer, link, begin, peak, plan.resumed is not None))
            show_settings(plan, console)
            if plan.world.first and plan.resumed is None:
                _keep_configuration(plan)
            shutdown.enter_context(simulation_app(plan.env_cfg, plan.launcher_args))
            attempt.status = _train_and_judge(plan, group, attempt, writer, console, judge, loop)
        show_failure(plan, attempt, link.ended, terminal)
        show_built(built, console)
        if plan.world.first and not is_refused(attempt, link.ended):
            if not attempt.begun:
                start_loggers(plan.run_dir, plan.request.logger)  # a dashboard shows a failed start, too
            if attempt.status in OVER:
                remove_states(plan.run_dir)
        # Leaving by SystemExit lets a runtime that ends the process itself, as Isaac Sim does, pass the status on.
        sys.exit(attempt.exit_status)


@contextmanager
def _errors_of_beginning(plan: TrainPlan) -> Iterator[None]:
    """Turn errors of the run's directory into errors for the user."""
    try:
        yield
    except FileExistsError as error:
        raise UserError(f"run {plan.declared.run_id} is being resumed already: {error.filename} exists") from error
    except OSError as error:
        raise UserError(f"the run cannot start in {plan.run_dir}: {error}") from error


def _keep_configuration(plan: TrainPlan) -> None:
    """Write the configurations and the uncommitted changes of LedgerLab's source into the run's directory, redacted."""
    with tempfile.TemporaryDirectory(prefix="ledger_lab_") as scratch:
        dump_train_configs(scratch, plan.env_cfg, plan.agent_cfg)
        dumped = Path(scratch).glob("params/*.yaml")
        texts = {f"params/{path.name}": path.read_text(encoding="utf-8") for path in dumped}
    if changes := git_changes(Path(__file__).parent):
        texts["git/ledger_lab.diff"] = changes
    for name, text in texts.items():
        with whole_file(plan.run_dir / name, root=plan.run_dir) as unfinished:
            unfinished.write_text(Redactor().text(text), encoding="utf-8")


def _begin(
    plan: TrainPlan, group: ProcessGroup, started_ns: int, link: Link, shutdown: ExitStack, console: Console
) -> RunWriter:
    """Declare the run, and write that its attempt begins.

    Returns:
        The writer of the attempt's rows.
    """
    rank, attempt, resumed = plan.world.rank, plan.attempt, plan.resumed
    waits = plan.declared.timing == "synchronized" and plan.device != "cpu"
    base = Phase.STARTUP if resumed is None else Phase.RESTART
    synchronize = CudaTimer(plan.device).synchronize if waits else None
    clock = PhaseClock(started_ns, base=base, synchronize=synchronize, suspended_ns=link.suspensions.suspended_ns)
    writers: list[RunWriter] = []

    def open_journal() -> None:
        path = plan.run_dir / f"journal-{attempt}-{rank}.jsonl"
        journal = shutdown.enter_context(Journal(path, functools.partial(show_trouble, console)))
        writers.append(
            RunWriter(
                journal.append,
                clock,
                run_id=plan.declared.run_id,
                directory=group.folder(plan.run_dir),
                device=plan.device,
                attempt=attempt,
                rank=rank,
                env_steps=0 if resumed is None else resumed.state.env_steps,
                train_ns=0 if resumed is None else resumed.train_ns,
                evaluate_ns=0 if resumed is None else resumed.evaluate_ns,
                peak_gpu_memory_bytes=functools.partial(peak_gpu_memory_bytes, plan.device),
            )
        )

    def declare() -> None:
        with _errors_of_beginning(plan):
            open_journal()
            if resumed is None:
                writers[0].declare(plan.declared)
            note_run(os.environ, plan.run_dir)

    group.first(declare)  # other ranks write nothing before the run is declared, or another process resumes it
    if not plan.world.first:
        open_journal()
    (writer,) = writers
    writer.start(plan.env_cfg.seed, read_job(os.environ))
    return writer


def _train_and_judge(
    plan: TrainPlan,
    group: ProcessGroup,
    attempt: Attempt,
    writer: RunWriter,
    console: Console,
    judge_type: type[Judge],
    loop_type: type[TrainingLoop],
) -> Status:
    """Train, and judge policies during the training.

    Returns:
        The status of the attempt.
    """
    clock = writer.clock
    with FirstErrorStack() as stack:
        env = stack.enter_context(
            environment(plan.request.task, plan.slots_cfg, spread=not plan.declared.held_out_slots)
        )
        stack.callback(clock.unwind, Phase.SHUTDOWN)  # after the training, the simulation closes
        stack.enter_context(recorded_physics(env))
        slots = stack.enter_context(_held_out_slots(plan, env, writer)) if plan.declared.held_out_slots else None
        view = None if slots is None else TrainingView(env, slots)
        record = functools.partial(record_checkpoint, plan, writer)
        trainer = plan.adapter.trainer(env if view is None else view, plan.agent_cfg, writer.directory, clock, record)
        trainer.compute_in(plan.threads)
        stack.enter_context(lossy_event_files(functools.partial(show_loss, console)))

        def snapshot() -> CheckpointSaved:
            return CheckpointSaved.from_data(group.first(lambda: trainer.save().to_data()))

        def load(saved: CheckpointSaved) -> Policy:
            path = group.file(plan.run_dir / saved.path)
            require_recorded_hash(path, saved, plan.declared.run_id)
            return plan.adapter.load_policy(path, env, plan.agent_cfg)

        judge = None
        if slots is not None:
            judge = judge_type(plan, slots, group, writer, snapshot, load)
        keeper = StateKeeper(plan, group, trainer, SimulationState(env, view), judge, writer.append, clock)
        if trainer.replay is not None:
            writer.replay_bytes = trainer.replay.nbytes
            show_replay(trainer.replay, plan.request.save_replay, plan.world.size, console)
        show_reasons(keeper.begin(), console)
        endings = EpisodeEndings(env, plan.env_cfg.scene.num_envs)
        watch = _health_watch(plan, writer, trainer, endings.time_outs, env.unwrapped.max_episode_length, console)
        if plan.declared.timing == "events":
            clock.follow(CudaTimer(plan.device))
        with endings.counting():
            loop = loop_type(plan, group, attempt, writer, watch, trainer, judge, keeper, endings.take, console)
            status = loop.run()
        writer.iteration = None
        if status is Status.LIMIT_REACHED and writer.env_steps:
            snapshot()
        if judge is not None and status is not Status.STOPPED:
            status = _judge_last(judge, status, loop.limit, attempt, clock, console)
        if status is Status.LIMIT_REACHED:
            console.print(f"limit reached: {attempt.error}", style="yellow", markup=False, soft_wrap=True)
        clock.settle()  # after an exception, the device may be lost, and is not asked
        return status


@contextmanager
def _held_out_slots(plan: TrainPlan, env: ManagerBasedRLEnv, writer: RunWriter) -> Iterator[HeldOutSlots]:
    """Attach the held-out slots of this process; at the end, record the peak use of the engine's capacities."""
    scoring = functools.partial(writer.clock.window, Phase.EVALUATE)
    share = share_of(plan.panel, plan.world.rank, plan.world.size)
    with (
        HeldOutSlots(env, share, plan.env_cfg.scene.num_envs, window=scoring).attached() as slots,
        capacity_told(slots, writer.clock, writer.append),
    ):
        yield slots


def _health_watch(
    plan: TrainPlan,
    writer: RunWriter,
    trainer: Trainer,
    time_outs: Collection[str],
    episode_steps: int,
    console: Console,
) -> HealthWatch:
    """Make the health watch, and give it the scores of earlier attempts. It does not report their events again."""
    dialect, agent_cfg = plan.adapter.dialect, plan.agent_cfg
    settings = Settings(
        dialect.overrides,
        dialect.adaptive,
        value_scale=dialect.value_scale(agent_cfg),
        entropy_target=trainer.entropy_target,
    )
    episode_iterations = math.ceil(episode_steps / plan.batch.horizon)
    batch, target = plan.batch, plan.panel.target_success
    monitor = HealthMonitor(batch.max_iterations, target, settings, time_outs, episode_iterations)
    for result, iteration in () if plan.resumed is None else plan.resumed.scored:
        monitor.on_panel(result, iteration)
    held_bytes = functools.partial(gpu_memory_bytes, plan.device)
    return HealthWatch(monitor, plan.request.stop_on, writer.append, writer.clock.wall_ns, held_bytes, console)


def _judge_last(
    judge: Judge, trained: Status, limit: TimeLimit, attempt: Attempt, clock: PhaseClock, console: Console
) -> Status:
    """Judge the last policy, unless a policy is proven already, or the time of the run is used up.

    Returns:
        The status of the run.
    """
    clock.set_base(Phase.EVALUATE)
    if judge.proven is None and trained is not Status.LIMIT_REACHED:
        with Progress(console, "scoring the last policy, step", None, elapsed_s=limit.elapsed_s) as progress:
            steps = itertools.count(1)
            judge.finish(lambda: progress.advance(next(steps)), lambda: limit.passed)
        if judge.cut_short:
            attempt.error = limit.error("while the last policy was judged")
    if judge.proven is not None:
        attempt.error = None
        return Status.TARGET_REACHED
    if judge.cut_short or trained is Status.LIMIT_REACHED:
        return Status.LIMIT_REACHED
    return Status.COMPLETED if judge.valid else Status.INVALID
