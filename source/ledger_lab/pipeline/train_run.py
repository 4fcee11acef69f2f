"""``scripts/train.py``: the whole way of a run, in order."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import torch
from isaaclab_rl.entrypoints.common import dump_train_configs
from rich.console import Console

from ledger_lab.ledger import AttemptStarted, CheckpointSaved, Journal, PanelResult, RunDeclared, Status, read_ledger
from ledger_lab.meters import TRAINING_PHASES, Phase, PhaseClock, git_facts, hardware_facts, package_versions
from ledger_lab.meters.compilation import metered_compilation
from ledger_lab.panels import reaches_target
from ledger_lab.pipeline.attempt import Attempt, attempt_life
from ledger_lab.pipeline.console import Terminal, tell_error
from ledger_lab.pipeline.preflight import TrainPlan, plan_training
from ledger_lab.pipeline.progress import Progress, training_figures
from ledger_lab.pipeline.request import parse, train_parser
from ledger_lab.pipeline.score import Candidate, file_sha256, score_checkpoints
from ledger_lab.reports import render_report, summarize_cohorts, summarize_run
from ledger_lab.reports.format import duration
from ledger_lab.runners.cpu_graphs import recorded_physics
from ledger_lab.runners.session import environment, peak_gpu_memory_bytes, physics_name, simulation_app


def train_run(argv: Sequence[str], started_ns: int) -> NoReturn:
    """Train as the command line says, score the checkpoints, and report.

    Args:
        argv: Command line without the program's name.
        started_ns: When the process began, on the clock of :func:`time.perf_counter_ns`.

    Raises:
        SystemExit: In the end; with status 0 only if all work was done.
        UserError: If the request can't be carried out; nothing was spent and no row written.
    """
    args, overrides = parse(train_parser(), argv)
    terminal = Terminal(quiet_libraries=not (args.verbose or args.info))
    try:
        plan = plan_training(args, overrides)
        terminal.keep_log(plan.run_dir / "console.log")
        _carry_out(plan, terminal, started_ns)
    finally:
        terminal.restore()


def _carry_out(plan: TrainPlan, terminal: Terminal, started_ns: int) -> NoReturn:
    """Declare the run, train, score, end the attempt, report."""
    synchronize = torch.cuda.synchronize if plan.timing == "synchronized" and plan.device != "cpu" else None
    clock = PhaseClock(started_ns, synchronize=synchronize)
    console = terminal.console
    with ExitStack() as shutdown:
        journal = shutdown.enter_context(Journal(plan.run_dir / "journal-1-0.jsonl"))
        journal.append(_declaration(plan))
        journal.append(
            AttemptStarted(
                run_id=plan.run_id,
                attempt=1,
                rank=0,
                pid=os.getpid(),
                host=socket.gethostname(),
                wall_ns=clock.wall_ns(),
            )
        )
        shutdown.enter_context(metered_compilation(clock))
        with attempt_life(journal.append, clock, lambda: peak_gpu_memory_bytes(plan.device)) as attempt:
            _greet(plan, console)
            dump_train_configs(str(plan.run_dir), plan.env_cfg, plan.agent_cfg)
            shutdown.enter_context(simulation_app(plan.env_cfg, plan.launcher_args))
            checkpoints = _train(plan, journal, clock, attempt, console)
            results = _score(plan, journal, attempt, checkpoints, console)
            scores = [(result.outcomes.successes, result.outcomes.episodes) for result in results]
            if any(reaches_target(*score, plan.panel.target_success) for score in scores):
                attempt.status = Status.TARGET_REACHED
        if attempt.error is not None:
            tell_error(attempt.error, console, terminal.log)
        _report(plan, console)
        # Leaving by SystemExit lets a runtime that ends the process itself, as Isaac Sim does, pass the status on.
        sys.exit(attempt.exit_status)


def _greet(plan: TrainPlan, console: Console) -> None:
    """Say what is about to happen."""
    console.print(
        f"run {plan.run_id} · {plan.task} · {plan.adapter.library} · {plan.env_cfg.scene.num_envs} environments · "
        f"{physics_name(plan.env_cfg)} on {plan.device} · seed {plan.seed}\n{plan.run_dir}\n"
        "starting the simulation (on a new machine kernels are compiled first, which takes minutes) …",
        markup=False,
        soft_wrap=True,
    )


def _train(
    plan: TrainPlan, journal: Journal, clock: PhaseClock, attempt: Attempt, console: Console
) -> list[CheckpointSaved]:
    """Train to the end.

    Returns:
        All checkpoints, in order.
    """
    with environment(plan.task, plan.env_cfg) as env, recorded_physics(env):
        with Progress(console, "training", plan.batch.max_iterations) as progress:
            recorder = _Recorder(plan, journal, clock, attempt, progress)
            trainer = plan.adapter.trainer(env, plan.agent_cfg, plan.run_dir, clock, recorder)
            clock.set_base(Phase.UNATTRIBUTED)
            trainer.train()
        clock.set_base(Phase.EVALUATE)  # closing this simulation makes room for the one that scores
    return recorder.checkpoints


class _Recorder:
    """Writes what the training loop reports into the journal, and shows it."""

    def __init__(
        self, plan: TrainPlan, journal: Journal, clock: PhaseClock, attempt: Attempt, progress: Progress
    ) -> None:
        """Begin with nothing trained."""
        self._plan, self._journal, self._clock, self._attempt, self._progress = plan, journal, clock, attempt, progress
        self._train_ns = 0
        self.checkpoints: list[CheckpointSaved] = []

    def on_iteration(self, iterations: int, figures: Mapping[str, float]) -> None:
        """Write the iteration's phases."""
        self._attempt.iterations, self._attempt.env_steps = iterations, self._env_steps(iterations)
        phase_ns, _ = self._attempt.beat()
        self._train_ns += sum(phase_ns.get(phase, 0) for phase in TRAINING_PHASES)
        line = training_figures(self._attempt.env_steps, self._train_ns / 1e9)
        if "Train/mean_reward" in figures:
            line += f" · reward {figures['Train/mean_reward']:.2f}"
        self._progress.advance(iterations, line, phase_ns)

    def on_checkpoint(self, path: Path, iterations: int) -> None:
        """Write what was saved."""
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

    def _env_steps(self, iterations: int) -> int:
        """Return the environment steps of so many iterations."""
        return iterations * self._plan.batch.horizon * self._plan.env_cfg.scene.num_envs


def _score(
    plan: TrainPlan, journal: Journal, attempt: Attempt, checkpoints: Sequence[CheckpointSaved], console: Console
) -> list[PanelResult]:
    """Score all checkpoints and write their results."""
    results = score_checkpoints(
        [
            Candidate(
                run_id=plan.run_id, run_dir=plan.run_dir, saved=saved, adapter=plan.adapter, agent_cfg=plan.agent_cfg
            )
            for saved in checkpoints
        ],
        task=plan.task,
        env_cfg=plan.env_cfg,
        panel=plan.panel,
        identity=plan.identity,
        console=console,
    )
    attempt.iterations = None
    for result in results:
        journal.append(result)
    return results


def _report(plan: TrainPlan, console: Console) -> None:
    """Print the run's table, and the first checkpoint that reached the target."""
    summary = summarize_run(read_ledger(plan.run_dir).runs[0])
    console.print(render_report([summary], summarize_cohorts([summary]), console.width))
    first = summary.first_reaching
    if first is not None:
        console.print(
            f"first to reach the target: {first.path} after {first.iteration} iterations, saved at "
            f"{duration(first.wall_s)}: {first.heldout_successes} of {first.heldout_episodes} held-out episodes\n"
            f"watch it: ./isaaclab.sh -p scripts/play.py {plan.run_dir / first.path} --video --viz newton_gl",
            style="green",
            markup=False,
            soft_wrap=True,
        )


def _declaration(plan: TrainPlan) -> RunDeclared:
    """Return the row that says what the run is going to do."""
    return RunDeclared(
        run_id=plan.run_id,
        cohort=plan.cohort,
        task=plan.task,
        rl_library=plan.adapter.library,
        experiment=plan.agent_cfg.experiment_name,
        overrides=plan.overrides,
        seed=plan.seed,
        device=plan.device,
        num_envs=plan.env_cfg.scene.num_envs,
        world_size=1,
        max_iterations=plan.batch.max_iterations,
        horizon=plan.batch.horizon,
        epochs=plan.batch.epochs,
        minibatches=plan.batch.minibatches,
        panel=plan.panel.source,
        panel_id=plan.identity.id,
        panel_fields=plan.identity.fields,
        target_success=plan.panel.target_success,
        physics=physics_name(plan.env_cfg),
        timing=plan.timing,
        price=plan.price.to_dict(),
        config_sha256=plan.config_sha256,
        versions=package_versions(),
        git=git_facts(Path(__file__).parent),
        hardware={
            **hardware_facts(),
            "accelerator": None if plan.device == "cpu" else torch.cuda.get_device_name(plan.device),
        },
        command=sys.argv,
    )
