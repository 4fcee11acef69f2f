"""``scripts/search.py``: searches for what reaches the target in the least time or for the least cost."""

from __future__ import annotations

import itertools
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ledger_lab.clusters.programs import AskedInVainError
from ledger_lab.errors import UserError
from ledger_lab.ledger.cohorts import cohort_journal
from ledger_lab.ledger.endings import Terminated
from ledger_lab.reports.figures import save_drawings
from ledger_lab.reports.terminal.console import EXIT_USER_ERROR, make_console, write_json
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE
from ledger_lab.studies.commands.search_arguments import chain_arguments, start_arguments, write_schedule
from ledger_lab.studies.commands.search_decisions import Search
from ledger_lab.studies.commands.search_locks import lock_of_trainings, only_program
from ledger_lab.studies.commands.search_on import SearchJobs
from ledger_lab.studies.commands.search_request import SearchRequest, find_search
from ledger_lab.studies.commands.search_runs import SearchRuns
from ledger_lab.studies.commands.search_scores import scored_trainings
from ledger_lab.studies.figures.search_page import write_search_page
from ledger_lab.studies.figures.searches import draw_search
from ledger_lab.studies.reports.search_view import (
    end_lines,
    importance_table,
    past_predictions,
    prediction_lines,
    search_json,
    search_lines,
    spend_line,
    trial_notes,
    trials_table,
)
from ledger_lab.studies.reports.search_words import copy_words, training_words, values_words
from ledger_lab.studies.search.decisions import End, Start
from ledger_lab.studies.search.declaration import load_search
from ledger_lab.studies.search.result import SearchResult
from ledger_lab.studies.search.trials import Outcome, Place, SearchTraining, cohort_of
from ledger_lab.studies.train_here import train_command, train_here
from ledger_lab.units import counted, duration

_LOOK_EVERY_S = 10.0
"""Time between two looks at the ledger and the cluster [s]."""
_PATIENCE, _LEAST_PATIENCE_S = 1.5, 120.0
"""A training on this machine that runs for so many times its cap hangs, and is asked to end; but not before so many
seconds after the cap [s]."""
_PATIENCE_WITHOUT_CAP = 10.0
"""The same for a training without a cap, as a multiple of the slowest training so far. If it does not hang, it is
resumed."""
_MOST_UNANSWERED = 30
"""Questions in a row that a cluster may leave without an answer while trainings are under way."""
_WITHOUT_RESULT = (Outcome.CRASHED, Outcome.HUNG)
_MOST_FAILURES = 10
"""Trainings in a row without a result after which the machine may be at fault."""


def run_search(argv: Sequence[str]) -> int:
    """Run a search to its end, or show it.

    Args:
        argv: Command line without the program's name.

    Returns:
        0 if the search has ended, or nothing was to be trained; 75 if a signal ended the program.

    Raises:
        UserError: If there is no such search file, the search can't go on, or a training is refused.
    """
    request = SearchRequest.parse(argv)
    declaration = load_search(find_search(request.search))
    console = make_console()
    jobs = None if request.on is None else SearchJobs(declaration, request.on)
    search = Search(declaration, request.log_root if jobs is None else jobs.log_root, jobs)
    if request.cancel:
        with only_program(declaration, search.log_root):  # a program that goes on would submit them again
            ended = [] if jobs is None else jobs.cancel()
        console.print(f"cancelled job {', '.join(ended)}" if ended else "nothing to cancel: no training is queued")
        return 0
    if request.status:
        _show(search, request, console)
        return 0
    search.require_possible()
    if request.dry_run:
        _print_next(search, console)
        return 0
    with only_program(declaration, search.log_root) as folder, lock_of_trainings(folder, console) as lock:
        try:
            end = _carry_out(search, request.at_once, console, lock)
        except Terminated:
            console.print("run the command again to continue the search")
            return EXIT_REQUEUE
    console.print("", f"the search has ended: {end.reason}", "", sep="\n", soft_wrap=True)
    _show(search, request, console)
    return 0


def _carry_out(search: Search, at_once: int, console: Console, lock: int) -> End:
    """Start trainings until the search has ended.

    Args:
        search: The search.
        at_once: Largest number of trainings that run at the same time.
        console: Where to print.
        lock: Descriptor of the lock that trainings on this machine hold.

    Raises:
        UserError: If the search can't go on, or a training is refused.
    """
    told, began_s = "", time.time()
    without_result: list[tuple[float, SearchTraining]] = []
    has_answered, unanswered = False, 0
    while True:
        try:
            runs, gone = search.look()
        except AskedInVainError as error:
            unanswered += 1
            if not has_answered or unanswered == _MOST_UNANSWERED:
                raise
            console.print(f"{error}; looking again in {_LOOK_EVERY_S:.0f} s", markup=False, soft_wrap=True)
            time.sleep(_LOOK_EVERY_S)
            continue
        has_answered, unanswered = True, 0
        for training, each in gone.items():
            if not (each.is_refused and search.skip(training, runs)):
                raise UserError(
                    f"search {search.declaration.name}: {training_words(search.declaration, training)} ended before it "
                    f"began to train: see {each.output}; correct that, remove the folder of this submission, and start "
                    "again"
                )
            console.print(_skip_line(search, training, f"see {each.output}", each.folder), soft_wrap=True)
            without_result.append((time.time(), training))
        _require_results(search, runs, began_s, without_result)
        if gone:
            continue
        decision = search.next(runs)
        if isinstance(decision, End):
            return decision
        busy = [run for trial in runs.trials for run in trial.runs if run.outcome is Outcome.RUNNING]
        if isinstance(decision, Start) and len(busy) < at_once:
            told = ""
            if not _start(search, runs, decision, console, lock):
                without_result.append((time.time(), SearchTraining(decision.place, decision.seed)))
            continue
        reason = f"{counted(len(busy), 'training')} under way" if isinstance(decision, Start) else decision.reason
        if reason != told:
            console.print(f"waiting: {reason}", soft_wrap=True)
        told = reason
        time.sleep(_LOOK_EVERY_S)


def _require_results(
    search: Search, runs: SearchRuns, began_s: float, without_result: Sequence[tuple[float, SearchTraining]]
) -> None:
    """Stop if many trainings in a row ended without a result: the machine may be at fault.

    Args:
        search: The search.
        runs: Its trainings.
        began_s: When this program began; earlier trainings do not count [s since the epoch].
        without_result: Trainings that were refused or interrupted, with the time.

    Raises:
        UserError: If there are so many.
    """
    ended = [(seconds, training, False) for seconds, training in without_result]
    for trial in runs.trials:
        for run in trial.runs:
            if run.started_s >= began_s and run.outcome.is_final:
                training = SearchTraining(Place(trial.number, run.repeat, run.sealed), run.seed)
                ended.append((run.ended_s, training, run.outcome not in _WITHOUT_RESULT))
    ended.sort(key=lambda each: each[0])
    last = [training for _, training, _ in itertools.takewhile(lambda each: not each[2], reversed(ended))]
    if len(last) >= _MOST_FAILURES:
        raise UserError(
            f"search {search.declaration.name}: {len(last)} trainings in a row ended without a result, the last one of "
            f"{training_words(search.declaration, last[0])}: correct the cause, and start again; if the recipes are "
            "not to blame, move their runs away, and remove the folders of the trials that were left out"
        )


def _skip_line(search: Search, training: SearchTraining, where: str, submission: Path | None = None) -> str:
    """Say that a trial is left out."""
    folder = cohort_journal(search.log_root, cohort_of(search.declaration, training.place)).parent
    removed = " and ".join(str(each) for each in (folder, submission) if each is not None)
    return (
        f"trial {training.place.trial} is left out, because train.py refuses its values ({where}). If they are not to "
        f"blame, correct the cause, and remove {removed}"
    )


def _start(search: Search, runs: SearchRuns, start: Start, console: Console, lock: int) -> bool:
    """Start a training; on this machine, wait for its end.

    Returns:
        Whether it may have a result: it was not refused, and was not interrupted.

    Raises:
        UserError: If the training or its submission is refused.
    """
    runs.require_whole()
    arguments = start_arguments(runs, start)
    console.print("", *_start_lines(search, runs, start), sep="\n", soft_wrap=True)
    training = SearchTraining(start.place, start.seed)
    if search.jobs is not None:
        submission = search.jobs.submit(training, arguments)
        console.print(f"submitted to {submission.site} as job {submission.job} ({submission.folder})", soft_wrap=True)
        return True
    search.require_nothing_queued(runs)
    status = train_here(train_command(arguments, search.log_root), _longest_s(runs, start), keeps=(lock,))
    runs, _ = search.look()
    if status == EXIT_USER_ERROR and search.skip(training, runs):
        console.print(_skip_line(search, training, "see the message above"), soft_wrap=True)
        return False
    if status == EXIT_USER_ERROR or training not in runs.runs:
        raise UserError(
            f"search {search.declaration.name}: {training_words(search.declaration, training)} was refused (see the "
            "message above): correct the cause, and start again"
        )
    return runs.outcome(training) is not Outcome.INTERRUPTED


def _longest_s(runs: SearchRuns, start: Start) -> float:
    """Return the time after which a training on this machine is taken to hang [s]."""
    if start.cap_s is not None:
        return max(_PATIENCE * start.cap_s, start.cap_s + _LEAST_PATIENCE_S)
    slowest_s = max(run.wall_s for trial in runs.trials for run in trial.runs)
    return max(_PATIENCE_WITHOUT_CAP * slowest_s, _LEAST_PATIENCE_S)


def _start_lines(search: Search, runs: SearchRuns, start: Start) -> list[str]:
    """Say what has been spent, and which training is started."""
    what = training_words(search.declaration, SearchTraining(start.place, start.seed))
    what = f"resuming {what}" if start.resumes else what
    copied = copy_words(search.declaration, start)
    cap = "" if start.cap_s is None else f", at most {duration(start.cap_s)}"
    values = f": {values_words(start.values)}" if start.values else ""
    return [spend_line(search.result(runs)), f"{what}{copied}{cap}{values}"]


def _print_next(search: Search, console: Console) -> None:
    """Print the command of the next training."""
    runs, _ = search.look()
    decision = search.next(runs)
    if not isinstance(decision, Start):
        console.print(f"nothing to start: {decision.reason}", soft_wrap=True)
        return
    runs.require_whole()
    if search.jobs is not None:
        search.jobs.show(SearchTraining(decision.place, decision.seed), start_arguments(runs, decision), console)
    else:
        command = train_command(start_arguments(runs, decision), search.log_root)
        console.print(shlex.join(command), soft_wrap=True)


def _show(search: Search, request: SearchRequest, console: Console) -> None:
    """Show a search on the terminal, or write it into the file asked for."""
    runs, _ = search.look()
    result = search.result(runs)
    if request.json is not None:
        race = search.declaration.population is None
        write_json(
            request.json, search_json(result, past_predictions(result, scored_trainings(runs)) if race else None)
        )
        return
    if request.html is not None:
        write_search_page(request.html, result, str(search.log_root))
        console.print(f"wrote {request.html}", soft_wrap=True)
        return
    if request.figures is not None:
        console.print(*(f"wrote {path}" for path in save_drawings(request.figures, draw_search(result))), sep="\n")
        return
    console.print(*search_lines(result), sep="\n", soft_wrap=True)
    if not result.trials:
        return
    console.print(trials_table(result, every=request.all))
    console.print(*trial_notes(result, every=request.all), sep="\n", soft_wrap=True)
    if result.importances:
        console.print("", importance_table(result), sep="\n")
    if search.declaration.population is None and (lines := prediction_lines(result, scored_trainings(runs))):
        console.print("", *lines, sep="\n", soft_wrap=True)
    if lines := end_lines(result):
        console.print("", *lines, sep="\n", soft_wrap=True)
    if lines := _use_lines(search, result):
        console.print(*lines, sep="\n", soft_wrap=True)


def _use_lines(search: Search, result: SearchResult) -> list[str]:
    """Say where the schedule of a population is, and how to train with what was found. This writes the files."""
    declaration, log_root = search.declaration, search.log_root
    lines = []
    if declaration.population is not None and result.finalists:
        best = result.finalists[0] if result.winner is None else result.winner.trial
        lines.append(f"schedule: {write_schedule(declaration, log_root, result.chain(best))}")
    if result.winner is None:
        return lines
    first, *others = chain_arguments(declaration, log_root, result.chain(result.winner.trial))
    lines.append(f"train with it: ./isaaclab.sh -p scripts/train.py {shlex.join(first)}")
    return lines + [
        f"then, with RUN = the run before: ./isaaclab.sh -p scripts/train.py {shlex.join(each)} --checkpoint RUN"
        for each in others
    ]
