"""``scripts/search.py``: searches for what reaches the target in the least time or for the least cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import MISSING, dataclass

from rich.console import Console

from ledger_lab.clusters.programs import AskedInVainError
from ledger_lab.documents import toml_value
from ledger_lab.errors import UserError
from ledger_lab.files import make_folder
from ledger_lab.ledger.endings import Terminated
from ledger_lab.reports.terminal.console import make_console, write_json
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE
from ledger_lab.reports.terminal.request import Program, flag
from ledger_lab.studies.commands.study import TrainingsRequest, run_study
from ledger_lab.studies.search.declaration import load_search
from ledger_lab.studies.search.search import Search, recipe_arguments, search_folder, written
from ledger_lab.studies.search.situation import End, Situation, Start
from ledger_lab.studies.search.trials import STOCK, Outcome, values_words
from ledger_lab.studies.search.view import (
    finalists,
    importance_table,
    importances,
    search_json,
    search_lines,
    spend_line,
    trials_table,
)
from ledger_lab.studies.trainings import only_program
from ledger_lab.units import counted, duration

_LOOK_EVERY_S = 10.0
"""Time between two looks at the ledger and the cluster [s]."""
_MOST_UNANSWERED = 30
"""Questions in a row that a cluster may leave without an answer while trainings are under way."""
_MOST_FAILURES = 10
"""Trainings in a row without a result or a saved state after which the machine may be at fault."""


@dataclass(frozen=True, kw_only=True)
class SearchRequest(TrainingsRequest):
    """What a user asks of ``scripts/search.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="search.py",
        description=(
            "Search for the recipe that reaches the target in the least time, or for the least cost. A search file "
            "lists hyperparameters with their ranges, a budget, and training seeds.\n\n"
            "First, the stock recipe (the task's own, with the changes in the file's table [stock]) is trained on all "
            "these seeds. Then each other trial races against the best trial so far: the program ends a trial when it "
            "can't win any more. When the rest of the budget is too small for another training, up to three of the "
            "best trials and the stock recipe are compared by a study on sealed seeds, which the search has not "
            "used.\n\n"
            "If the search file asks for a population, its members are trained in stages, and the worst are replaced "
            "by changed copies of better ones.\n\n"
            "If you start the program again, it continues from the ledger and from the trials that it has stored "
            "there. With --on, one training runs at a time unless you give --at_once, and trainings go on if the "
            f"program is ended. If the system ends the program, the exit status is {EXIT_REQUEUE}; after Ctrl-C, it is "
            "130."
        ),
        examples=(
            "search.py ant_recipe --dry_run",
            "search.py ant_recipe",
            "search.py ant_recipe --on slurm --at_once 4",
            "search.py ant_recipe --status",
        ),
    )

    search: str = flag(
        MISSING, "Search file: a name from config/searches, or your own .toml file.", metavar="SEARCH", positional=True
    )
    all: bool = flag(
        False,
        "Show all trials in the table, not only the best ones and those under way; of a population, all generations.",
    )
    json: str | None = flag(
        None, "With --status: write the results to a JSON file; - means standard output.", metavar="FILE"
    )

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UserError: If a flag has an impossible value, or needs another flag.
        """
        super().__post_init__()
        if self.on is None and (self.at_once is not None or self.cancel):
            raise UserError(f"--{'cancel' if self.cancel else 'at_once'} needs --on CLUSTER")
        if self.json is not None and not self.status:
            raise UserError(f"--json {self.json}: add --status")


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
    search = Search(load_search(request.search), request.log_root, request.on)
    console = make_console()
    if request.status:
        _show(search, search.look(), request, console)
        return 0
    if not request.cancel:
        search.require_possible()
    with only_program(search.log_root, search.declaration.cohort_stem) as kept:
        if kept is None:
            raise UserError(
                f"search {search.declaration.name}: another search.py works on it, or a training that it started has "
                "not ended: wait for it, or end it first"
            )
        if request.cancel:  # a program that goes on would submit them again
            console.print(search.trainings().cancel())
            return 0
        make_folder(search_folder(search.declaration, search.log_root))
        if request.dry_run:
            _print_next(search, console)
            return 0
        try:
            end = _carry_out(search, request.at_once or 1, console, kept)
        except Terminated:
            console.print("run the command again to continue the search")
            return EXIT_REQUEUE
    console.print("", f"the race has ended: {end.reason}", "", sep="\n", soft_wrap=True)
    situation = search.look()
    _show(search, situation, request, console)
    return _prove(search, situation, request, console)


def _carry_out(search: Search, at_once: int, console: Console, kept: Sequence[int]) -> End:
    """Start trainings until the race has ended.

    Args:
        search: The search.
        at_once: Largest number of trainings that run at the same time.
        console: Where to print.
        kept: Descriptors that trainings on this machine inherit.

    Raises:
        UserError: If the search can't go on, or a training is refused.
    """
    told, gained, started, unanswered = "", -1, 0, 0
    while True:
        try:
            trainings = search.trainings()
        except AskedInVainError as error:
            unanswered += 1
            if unanswered == _MOST_UNANSWERED:
                raise
            console.print(f"{error}; looking again in {_LOOK_EVERY_S:.0f} s", markup=False, soft_wrap=True)
            time.sleep(_LOOK_EVERY_S)
            continue
        unanswered = 0
        situation = search.look(trainings)
        now = sum(run.outcome.has_result for run in situation.runs) + trainings.saved_states
        gained, started = max(gained, now), started if now <= gained else 0
        if started >= _MOST_FAILURES + at_once - 1:
            raise UserError(
                f"search {search.declaration.name}: {started} trainings in a row had no result, and saved no state: "
                "correct the cause, and start again; if the recipes are not to blame, move their runs away"
            )
        decision = search.decide(situation)
        if isinstance(decision, End):
            if all(trial.is_stock for trial in situation.trials):
                raise UserError(f"search {search.declaration.name}: {decision.reason}")
            return decision
        busy = sum(run.outcome is Outcome.RUNNING for run in situation.runs)
        if isinstance(decision, Start) and busy < at_once:
            told = ""
            console.print("", spend_line(situation), _start_line(search, decision), sep="\n", soft_wrap=True)
            search.start(decision, trainings, console, kept)
            started += 1
            continue
        reason = f"{counted(busy, 'training')} under way" if isinstance(decision, Start) else decision.reason
        if reason != told:
            console.print(f"waiting: {reason}", soft_wrap=True)
        told = reason
        time.sleep(_LOOK_EVERY_S)


def _start_line(search: Search, start: Start) -> str:
    """Say which training is started."""
    what = f"{'resuming ' if start.resumes else ''}{search.words(start)}"
    cap = "" if start.cap_s is None else f", at most {duration(start.cap_s)}"
    values = f": {values_words(start.values)}" if start.values else ""
    return f"{what}{cap}{values}"


def _print_next(search: Search, console: Console) -> None:
    """Print the command of the next training."""
    trainings = search.trainings()
    decision = search.decide(search.look(trainings))
    if isinstance(decision, Start):
        search.show_command(decision, trainings, console)
    else:
        console.print(f"nothing to start: {decision.reason}", soft_wrap=True)


def _prove(search: Search, situation: Situation, request: SearchRequest, console: Console) -> int:
    """Write the study that compares the finalists with the stock recipe on sealed seeds, and run or submit it.

    Returns:
        As :func:`~ledger_lab.studies.commands.study.run_study`; 0 without a finalist.
    """
    declaration, finals = search.declaration, finalists(situation)
    if not finals:
        recipe = "trial" if declaration.is_race else "member whose values never changed"
        console.print(f"nothing to compare: no {recipe} reached the target on all its search seeds", soft_wrap=True)
        return 0
    recipes = {"stock": recipe_arguments(declaration, search.log_root, STOCK, {})}
    recipes |= {f"t{n.number:04d}": recipe_arguments(declaration, search.log_root, n.number, n.values) for n in finals}
    lines = [
        "version = 1",
        f"about = {toml_value(f'{declaration.name}: finalists on sealed seeds')}",
        f"seeds = {toml_value(list(declaration.sealed_seeds))}",
        f"arguments = {toml_value(declaration.common_arguments)}",
        "[factors.recipe]",
        *(f"{name} = {toml_value(arguments)}" for name, arguments in recipes.items()),
    ]
    folder = search_folder(declaration, search.log_root)
    path = written(folder / f"{declaration.cohort_stem}-sealed.toml", "\n".join(lines) + "\n")
    console.print("", f"the finalists and the stock recipe on sealed seeds ({path}):", sep="\n", soft_wrap=True)
    if request.on is None:
        return run_study([str(path), "--log_root", str(search.log_root)])
    return run_study([str(path), "--on", request.on, "--at_once", str(request.at_once or 1)])


def _show(search: Search, situation: Situation, request: SearchRequest, console: Console) -> None:
    """Show a search on the terminal, or write it into the file asked for."""
    if request.json is not None:
        write_json(request.json, search_json(situation))
        return
    console.print(*search_lines(situation), sep="\n", soft_wrap=True)
    if not situation.runs:
        return
    table, note = trials_table(situation, every=request.all)
    console.print(table)
    console.print(*note.split("\n"), sep="\n", soft_wrap=True)
    if found := importances(situation):
        console.print("", importance_table(found), sep="\n")
