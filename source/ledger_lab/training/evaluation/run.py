"""``scripts/evaluate.py``: scores any number of checkpoints on a panel, in one pass per simulation."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from ledger_lab.errors import UserError
from ledger_lab.ledger import EvaluationEnded, EvaluationStarted, Journal, PanelResult, Row, Status
from ledger_lab.ledger.anchors import anchors_of
from ledger_lab.ledger.meters.compilation import metered_compilation
from ledger_lab.ledger.meters.host import package_versions
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.reports.terminal.console import Terminal, tell_error
from ledger_lab.training.checkpoints.shipped import copy_shipped_run
from ledger_lab.training.evaluation.film import record_episodes, video_folder, worst_episodes
from ledger_lab.training.evaluation.plan import EvaluationPlan, plan_evaluation
from ledger_lab.training.evaluation.recorded_scores import compared_with_record
from ledger_lab.training.evaluation.request import EvaluateRequest
from ledger_lab.training.evaluation.score import Simulation, score_checkpoints
from ledger_lab.training.evaluation.show import show_scores
from ledger_lab.training.runners.description import code_sha256
from ledger_lab.training.runners.session import peak_gpu_memory_bytes, simulation_app
from ledger_lab.training.supervision.attempt import Begin, Link, attempt_life
from ledger_lab.training.writer import AttemptWriter


def evaluate_run(argv: Sequence[str], started_ns: int, link: Link) -> NoReturn:
    """Score checkpoints and write the results beside their runs' journals.

    Args:
        argv: Command line without the program's name.
        started_ns: When the program began, on the clock of :func:`time.perf_counter_ns`.
        link: Connection to the supervisor of this process.

    Raises:
        SystemExit: Always. The status is 0 only if every checkpoint has a valid score.
        UserError: If the request can't be carried out. No row is written then.
    """
    request = EvaluateRequest.parse(argv)
    terminal = Terminal(quiet_libraries=request.quiet_libraries, recorded=True)
    clock = PhaseClock(started_ns, suspended_ns=link.suspensions.suspended_ns)
    try:
        _carry_out(plan_evaluation(request), terminal, clock, link)
    finally:
        terminal.restore()


def _carry_out(plan: EvaluationPlan, terminal: Terminal, clock: PhaseClock, link: Link) -> NoReturn:
    """Open the journals, score the checkpoints, show the scores, and record videos."""
    name = f"journal-evaluation-{secrets.token_hex(4)}"
    console = terminal.console
    run_ids = {candidate.run_dir: candidate.run_id for candidate in plan.candidates}
    begin = Begin(
        journals={(run_dir / f"{name}-supervisor.jsonl").absolute(): run_id for run_dir, run_id in run_ids.items()},
        attempt=None,
        device=plan.device,
        log=(next(iter(run_ids)) / f"{name}.log").absolute(),
    )
    journals: dict[Path, Journal] = {}

    def append_everywhere(row: Row) -> None:
        for journal in journals.values():
            journal.append(row)

    with ExitStack() as shutdown, ExitStack() as life:
        shutdown.enter_context(metered_compilation(clock))
        writer = AttemptWriter(append_everywhere, clock, EvaluationEnded)
        peak = lambda: peak_gpu_memory_bytes(plan.device)  # noqa: E731 - called once, at the end
        try:
            _begin(plan, journals, name, shutdown, clock)
            terminal.keep_log(begin.log)
            attempt = life.enter_context(attempt_life(writer, link, begin, peak))
        except OSError as error:
            hint = "; raise ulimit -n, or score fewer runs at once" if "Too many open files" in str(error) else ""
            raise UserError(f"cannot write to the directory of a run: {error}{hint}") from error
        scores: list[list[PanelResult]] = []
        with life:
            for candidate in {candidate.run_id: candidate for candidate in plan.candidates}.values():
                candidate.print_notes(console)
            for simulation in plan.simulations:
                shutdown.enter_context(simulation_app(simulation.env_cfg, plan.launcher_args))
                clock.set_base(Phase.EVALUATE)
                scored = score_checkpoints(
                    plan.candidates, simulation, plan.panel, clock, append_everywhere, console, attempt.begin
                )
                scores.append(_compared(plan, simulation, scored, console))
            # Scores are written last, because a failed evaluation must leave no row that looks like a score.
            for results in scores:
                for candidate, result in zip(plan.candidates, results, strict=True):
                    journals[candidate.run_dir].append(result)
            if any(result.invalid for results in scores for result in results):
                attempt.status = Status.INVALID
            show_scores(plan, scores, console)
            _record_worst(plan, scores, shutdown, console)
        if attempt.error is not None:
            tell_error(attempt.error, console, terminal.log)
        sys.exit(attempt.exit_status)


def _begin(
    plan: EvaluationPlan, journals: dict[Path, Journal], name: str, shutdown: ExitStack, clock: PhaseClock
) -> None:
    """Open a journal per run directory, and write the rows that announce the evaluation."""
    for candidate in plan.candidates:
        copy_shipped_run(candidate.run.directory, candidate.run_dir)
    for simulation in plan.simulations if plan.videos else ():
        video_folder(plan.candidates[plan.recorded], simulation, plan.panel)  # a link there is refused at once
    for candidate in plan.candidates:
        if candidate.run_dir not in journals:
            journals[candidate.run_dir] = shutdown.enter_context(Journal(candidate.run_dir / f"{name}-0.jsonl"))
    for simulation in plan.simulations:
        for run_dir, journal in journals.items():
            journal.append(_started(plan, simulation, run_dir, clock))


def _compared(
    plan: EvaluationPlan, simulation: Simulation, scored: Sequence[PanelResult], console: Console
) -> list[PanelResult]:
    """Return scores after comparing them with those that the runs recorded; print differences that are explained."""
    of_run = {candidate.run_id: candidate for candidate in plan.candidates}
    code = {name: code_sha256(simulation.task, simulation.env_cfg, of.agent_cfg) for name, of in of_run.items()}
    results = []
    for score in scored:
        result, difference = compared_with_record(score, of_run[score.run_id].run, code[score.run_id])
        results.append(result)
        if difference is not None:
            console.print(difference, style="yellow", markup=False, soft_wrap=True)
    return results


def _record_worst(
    plan: EvaluationPlan, scores: Sequence[Sequence[PanelResult]], shutdown: ExitStack, console: Console
) -> None:
    """Record videos of one checkpoint's worst episodes in all simulations."""
    outcomes = [results[plan.recorded].outcomes for results in scores]
    chosen = worst_episodes(outcomes, plan.videos)
    for place, simulation in enumerate(plan.simulations):
        episodes = [episode for where, episode in chosen if where == place]
        if episodes:
            shutdown.enter_context(simulation_app(simulation.env_cfg, plan.recording_args))
            record_episodes(
                plan.candidates[plan.recorded],
                simulation,
                plan.panel,
                outcomes[place],
                episodes,
                plan.recording_args["visualizer"][0],
                console,
            )


def _started(plan: EvaluationPlan, simulation: Simulation, run_dir: Path, clock: PhaseClock) -> EvaluationStarted:
    """Return the row that announces which checkpoints of a run a simulation scores."""
    own = [candidate for candidate in plan.candidates if candidate.run_dir == run_dir]
    return EvaluationStarted(
        run_id=own[0].run_id,
        panel=plan.panel.source,
        panel_id=simulation.identity.id,
        panel_fields=simulation.identity.fields,
        checkpoints=[candidate.saved.path for candidate in own],
        all_checkpoints=len(plan.candidates),
        device=plan.device,
        versions=package_versions(),
        code_sha256=code_sha256(simulation.task, simulation.env_cfg, own[0].agent_cfg),
        scoring_code=simulation.code,
        host=socket.gethostname(),
        pid=os.getpid(),
        anchors=anchors_of(run_dir),
        wall_ns=clock.wall_ns(),
    )
