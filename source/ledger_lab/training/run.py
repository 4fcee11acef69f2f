"""``scripts/train.py``: the whole way of a run, in order."""

from __future__ import annotations

import functools
import itertools
import math
import os
import socket
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import torch
from isaaclab_rl.entrypoints.common import dump_train_configs
from rich.console import Console

from ledger_lab.errors import UserError
from ledger_lab.evaluation.score import capacity_told
from ledger_lab.files import file_sha256
from ledger_lab.launch import read_world
from ledger_lab.ledger import STATE_FILE, AttemptStarted, CheckpointSaved, Journal, PanelResult, Status
from ledger_lab.ledger.endings import reason_of
from ledger_lab.ledger.redaction import redact_files
from ledger_lab.meters import TRAINING_PHASES, Phase, PhaseClock
from ledger_lab.meters.compilation import metered_compilation
from ledger_lab.meters.health import HealthMonitor, Settings
from ledger_lab.mirrors.start import start_mirrors
from ledger_lab.panels.slots import HeldOutSlots
from ledger_lab.panels.view import TrainingView
from ledger_lab.runners import Policy, Trainer
from ledger_lab.runners.collectives import metered_collectives
from ledger_lab.runners.command_line import parse
from ledger_lab.runners.cpu_graphs import recorded_physics
from ledger_lab.runners.process_group import ProcessGroup, joined
from ledger_lab.runners.session import environment, gpu_memory_bytes, peak_gpu_memory_bytes, simulation_app
from ledger_lab.supervision.attempt import Attempt, attempt_life, resume_command
from ledger_lab.supervision.link import Link
from ledger_lab.terminal.console import Terminal, tell_error
from ledger_lab.terminal.progress import Progress, judged, training_figures
from ledger_lab.training.declaration import declaration
from ledger_lab.training.health_watch import HealthWatch
from ledger_lab.training.judge import Judge
from ledger_lab.training.plan import TrainPlan, plan_training
from ledger_lab.training.ranks import (
    Agreement,
    SpreadSlots,
    agree_on_ending,
    compare_learners,
    join_supervisors,
    said_once,
    share_of,
)
from ledger_lab.training.request import train_parser
from ledger_lab.training.resume import OVER, require_unchanged, resumed_request
from ledger_lab.training.show import greet, report
from ledger_lab.training.simulation_state import SimulationState, simulation_state
from ledger_lab.training.state import StateKeeper


def train_run(argv: Sequence[str], started_ns: int, link: Link, judge: type[Judge] = Judge) -> NoReturn:
    """Train as the command line says, judge the policies on the way, and report.

    Args:
        argv: Command line without the program's name.
        started_ns: When the process began, on the clock of :func:`time.perf_counter_ns`.
        link: Line to the supervisor of this process.
        judge: Judges the policies.

    Raises:
        SystemExit: In the end; with status 0 only if all work was done.
        UserError: If the request can't be carried out; nothing was spent and no row written.
    """
    with said_once(os.environ):
        args, overrides = parse(train_parser(), argv)
        world = read_world(os.environ, distributed=args.distributed)
    terminal = Terminal(quiet_libraries=not (args.verbose or args.info), speaks=world.first)
    try:
        with joined(world, on_gpu=args.device != "cpu" and torch.cuda.is_available()) as group:
            join_supervisors(group, link)
            _carry_out(_plan(args, overrides, argv, group), group, terminal, started_ns, link, judge)
    finally:
        terminal.restore()


def _plan(args: Namespace, overrides: list[str], argv: Sequence[str], group: ProcessGroup) -> TrainPlan:
    """Check a request, for a new run or for the next attempt of one."""
    if args.resume is None:
        if args.allow_changed_code:
            raise UserError("--allow_changed_code: there is nothing to go on with; say --resume RUN, too")
        return plan_training(args, overrides, group)
    args, resumed = resumed_request(args, overrides, argv, group)
    plan = plan_training(args, resumed.declared.overrides, group, resumed)
    return replace(plan, resumed=require_unchanged(declaration(plan), resumed, group, args.allow_changed_code))


def _carry_out(
    plan: TrainPlan, group: ProcessGroup, terminal: Terminal, started_ns: int, link: Link, judge: type[Judge]
) -> NoReturn:
    """Declare the run, train and judge, end the attempt, report."""
    synchronize = torch.cuda.synchronize if plan.timing == "synchronized" and plan.device != "cpu" else None
    base = Phase.STARTUP if plan.resumed is None else Phase.RESTART
    clock = PhaseClock(started_ns, base=base, synchronize=synchronize)
    console = terminal.console
    with ExitStack() as shutdown:
        try:
            terminal.keep_log(plan.log)
            journal = _begin(plan, shutdown, clock, link)
        except FileExistsError as error:
            raise UserError(f"run {plan.run_id} is being resumed already: {error.filename} is there") from error
        except OSError as error:
            raise UserError(f"the run cannot begin in {plan.run_dir}: {error}") from error
        start_mirrors(plan.run_dir, plan.mirrors if plan.world.first else [])
        shutdown.enter_context(metered_compilation(clock))
        shutdown.enter_context(metered_collectives(clock))
        peak = lambda: peak_gpu_memory_bytes(plan.device)  # noqa: E731 - asked once, in the end
        before = None if plan.resumed is None else plan.resumed.state.env_steps
        life = attempt_life(journal.append, clock, peak, link.end, grace_s=plan.grace_s, resumed_env_steps=before)
        with life as attempt, link.others_ended_first():
            greet(plan, console)
            if plan.world.first and plan.resumed is None:
                dump_train_configs(str(plan.run_dir), plan.env_cfg, plan.agent_cfg)
            shutdown.enter_context(simulation_app(plan.env_cfg, plan.launcher_args))
            attempt.status = _train(plan, group, journal, clock, attempt, console, judge)
        if attempt.error is not None and attempt.status is not Status.STOPPED:  # that was told when it was found
            if link.ended is None or link.ended.reason == reason_of(attempt.error):
                tell_error(attempt.error, console, terminal.log)
            else:  # the end of another process, of which that error is a consequence
                told = f"{link.ended.status}: {link.ended.reason} (what it printed: {plan.run_dir}/console-1-RANK.log)"
                console.print(told, style="bold red", markup=False, soft_wrap=True)
        if plan.world.first:
            report(plan, console)
            if attempt.status in OVER:
                for state in plan.run_dir.glob(f"{STATE_FILE}*"):  # one that was never whole, too
                    state.unlink()
            elif attempt.resumable:
                processes = plan.world.size if plan.world.one_machine else 1
                command = resume_command(plan.run_dir, processes, plan.grace_s)
                console.print(f"go on with it: {command}", markup=False, soft_wrap=True)
        # Leaving by SystemExit lets a runtime that ends the process itself, as Isaac Sim does, pass the status on.
        sys.exit(attempt.exit_status)


def _begin(plan: TrainPlan, shutdown: ExitStack, clock: PhaseClock, link: Link) -> Journal:
    """Declare the run, and put its attempt into the supervisor's charge."""
    rank, attempt = plan.world.rank, plan.attempt
    journal = shutdown.enter_context(Journal(plan.run_dir / f"journal-{attempt}-{rank}.jsonl"))
    if plan.world.first and plan.resumed is None:
        journal.append(declaration(plan))
    supervision = plan.run_dir / f"journal-{attempt}-supervisor{f'-{rank}' if rank else ''}.jsonl"
    link.begin([supervision], [plan.run_id], attempt, plan.device, plan.log, rank, plan.grace_s)
    journal.append(
        AttemptStarted(
            run_id=plan.run_id,
            attempt=attempt,
            rank=rank,
            pid=os.getpid(),
            host=socket.gethostname(),
            wall_ns=clock.wall_ns(),
            seed=plan.env_cfg.seed,
        )
    )
    return journal


def _train(
    plan: TrainPlan,
    group: ProcessGroup,
    journal: Journal,
    clock: PhaseClock,
    attempt: Attempt,
    console: Console,
    judge_type: type[Judge],
) -> Status:
    """Train, and judge the policies on the way.

    Returns:
        How it went.
    """
    with ExitStack() as stack:
        env = stack.enter_context(environment(plan.task, plan.slots_cfg))
        stack.callback(clock.unwind, Phase.SHUTDOWN)  # when all that comes now is over, and the simulation closes
        stack.enter_context(recorded_physics(env))
        settings = Settings(plan.adapter.dialect.overrides, plan.adapter.dialect.adaptive)
        monitor = HealthMonitor(plan.batch.max_iterations, plan.panel.target_success, settings)
        for result, iteration in () if plan.resumed is None else plan.resumed.scored:
            monitor.on_panel(result, iteration)  # what it says of it was told by an earlier attempt
        held_bytes = lambda: gpu_memory_bytes(plan.device)  # noqa: E731 - asked once an iteration
        watch = HealthWatch(monitor, plan.stop_on, journal.append, clock.wall_ns, held_bytes, console)
        recorder = _Recorder(plan, group, journal, clock, attempt, watch)
        folder = group.folder(plan.run_dir)
        if not plan.held_out_slots:
            trainer = plan.adapter.trainer(env, plan.agent_cfg, folder, clock, recorder)
            simulation = simulation_state(env, None, None, trainer.carried())
            return recorder.train(trainer, simulation, None, console)
        judging = functools.partial(clock.window, Phase.EVALUATE)
        share = share_of(plan.panel, plan.world.rank, plan.world.size)
        slots = stack.enter_context(HeldOutSlots(env, share, plan.env_cfg.scene.num_envs, window=judging).attached())
        stack.enter_context(capacity_told(slots, clock, journal.append))
        view = TrainingView(env, slots)
        trainer = plan.adapter.trainer(view, plan.agent_cfg, folder, clock, recorder)

        def save() -> dict[str, Any]:
            name = trainer.save().name
            return next(saved for saved in reversed(recorder.checkpoints) if saved.path == name).to_data()

        def snapshot() -> CheckpointSaved:
            return CheckpointSaved.from_data(group.first(save))

        def load(saved: CheckpointSaved) -> Policy:
            return plan.adapter.load_policy(group.file(plan.run_dir / saved.path), env, plan.agent_cfg)

        spread = SpreadSlots(slots, group, plan.panel)
        judge = judge_type(plan, spread, clock, recorder.on_panel, snapshot, load)
        simulation = simulation_state(env, view, slots, trainer.carried())
        ended = recorder.train(trainer, simulation, judge, console)
        attempt.iterations = None
        if ended is Status.STOPPED:
            return ended
        clock.set_base(Phase.EVALUATE)
        if judge.confirmed is None:
            with Progress(console, "judging the last policy", None) as progress:
                steps = itertools.accumulate(itertools.repeat(1))
                judge.finish(lambda: progress.advance(next(steps)))
        if judge.confirmed is not None:
            return Status.TARGET_REACHED
        return Status.COMPLETED if judge.valid else Status.INVALID


class _Recorder:
    """Writes what the training loop reports into the journal, and shows it."""

    def __init__(
        self,
        plan: TrainPlan,
        group: ProcessGroup,
        journal: Journal,
        clock: PhaseClock,
        attempt: Attempt,
        watch: HealthWatch,
    ) -> None:
        """Begin with nothing trained."""
        self._plan, self._group, self._journal, self._clock = plan, group, journal, clock
        self._attempt, self._watch = attempt, watch
        self._train_ns = 0 if plan.resumed is None else plan.resumed.train_ns
        self._training = False
        self.checkpoints: list[CheckpointSaved] = [] if plan.resumed is None else [*plan.resumed.checkpoints]

    def train(self, trainer: Trainer, simulation: SimulationState, judge: Judge | None, console: Console) -> Status:
        """Run the training loop under a progress bar, from the state of an earlier attempt if there is one.

        Args:
            trainer: The loop.
            simulation: The state of its simulation.
            judge: Who judges its policies, if anybody does.
            console: Where the progress is shown.

        Returns:
            ``stopped`` if a health event ended it, whose evidence is in the attempt then; else ``completed``.

        Raises:
            KeyboardInterrupt: If somebody asked it to end before all was done.
            Terminated: The same, for the system.
        """
        plan, group = self._plan, self._group
        self._judge, self._trainer = judge, trainer
        self._keeper = StateKeeper(plan, group, trainer, simulation, judge, self._journal.append, self._clock)
        if plan.world.first:
            redact_files([*plan.run_dir.glob("params/*.yaml"), *plan.run_dir.glob("git/*")])
        self._earlier = self._keeper.begin()
        with Progress(console, "training", plan.batch.max_iterations, self._earlier) as self._progress:
            group.any(False)  # wait until all processes are there: that belongs to starting up
            self._clock.set_base(Phase.UNATTRIBUTED)
            self._training = True
            with self._attempt.polite(), self._watch.ending() if plan.world.first else nullcontext():
                trainer.train()
            self._training = False
        agreed = agree_on_ending(group, self._vote())
        if agreed.stopped:
            return Status.STOPPED
        if agreed.end_signal is not None:
            self._attempt.heed(agreed.end_signal)
        proven = judge is not None and judge.confirmed is not None and plan.stop_at_target
        if agreed.ends and not proven:
            self._attempt.leave()
        return Status.COMPLETED

    def on_iteration(self, iterations: int, figures: Mapping[str, float]) -> bool:
        """Write the iteration's phases, and let the policy be judged."""
        self._attempt.iterations, self._attempt.env_steps = iterations, self._env_steps(iterations)
        phase_ns, _ = self._attempt.beat(figures)
        if self._plan.world.first:
            self._watch.on_iteration(iterations, self._env_steps(1), figures, phase_ns)
        if spoiled := [name for name, value in figures.items() if not math.isfinite(value)]:
            raise FloatingPointError(f"{', '.join(spoiled)} not finite at iteration {iterations}")
        compare_learners(self._group, iterations, self._earlier, self._trainer, self._clock, self._journal.append)
        self._train_ns += sum(phase_ns.get(phase, 0) for phase in TRAINING_PHASES)
        line = training_figures(self._attempt.env_steps, self._train_ns / 1e9)
        if "mean_return" in figures:
            line += f" · return {figures['mean_return']:.2f}"
        if self._judge is not None and self._judge.last is not None:
            line += f" · held out {judged(self._judge.last)}"
        self._progress.advance(iterations, line, phase_ns)
        if self._judge is not None and not self._judge.after_iteration(iterations):
            return False
        self._attempt.error = self._watch.stopped
        agreed = agree_on_ending(self._group, self._vote())
        if agreed.stopped:
            return False
        if agreed.end_signal is not None:
            self._attempt.heed(agreed.end_signal)
        if agreed.ends or agreed.state_overdue or iterations == self._plan.batch.max_iterations:
            self._keeper.insist()
        self._attempt.resumable |= self._keeper.after_iteration(iterations, self._attempt.env_steps)
        return not agreed.ends

    def _vote(self) -> Agreement:
        """Return what this process votes for: whether the run ends, and whether its state is to be saved."""
        return Agreement(self._attempt.error is not None, self._attempt.asked, self._keeper.overdue)

    def on_panel(self, result: PanelResult) -> None:
        """Write a held-out score, and look at what it says of the training; of all processes, the first one does."""
        if result.purpose == "confirmation":
            self._keeper.insist()  # what it cost of the error budget must not be lost
        if not self._plan.world.first:
            return
        if not self._is_told(result):
            self._journal.append(result)
        if self._training:
            saved = next(each for each in self.checkpoints if each.path == result.checkpoint)
            self._watch.on_panel(result, saved.iteration)

    def on_checkpoint(self, path: Path, iterations: int) -> None:
        """Write what was saved; what other processes than the first one save, nobody keeps."""
        if not self._plan.world.first:
            path.unlink()  # where they save is often memory
            return
        saved = CheckpointSaved(
            path=str(path.relative_to(self._plan.run_dir)),
            sha256=file_sha256(path),
            size_bytes=path.stat().st_size,
            iteration=iterations,
            env_steps=self._env_steps(iterations),
            wall_ns=self._clock.wall_ns(),
        )
        self._journal.append(saved)
        self.checkpoints.append(saved)

    def _is_told(self, result: PanelResult) -> bool:
        """Tell whether a lost attempt has written the same score of the same policy on the same episodes."""
        earlier = [] if self._plan.resumed is None else self._plan.resumed.results
        return any(replace(row, wall_ns=result.wall_ns) == result for row in earlier)

    def _env_steps(self, iterations: int) -> int:
        """Return the environment steps of so many iterations, of all processes."""
        return iterations * self._plan.batch.horizon * self._plan.env_cfg.scene.num_envs * self._plan.world.size
