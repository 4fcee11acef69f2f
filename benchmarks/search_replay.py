"""``python -m benchmarks search_replay``: check that each training of a search follows from the ledger before it."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.comparison import add_json
from ledger_lab.errors import UserError
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.studies.commands.search_decisions import Search
from ledger_lab.studies.commands.search_request import find_search
from ledger_lab.studies.commands.search_runs import SearchRuns
from ledger_lab.studies.search.decisions import Decision, End, Situation, Start
from ledger_lab.studies.search.declaration import load_search
from ledger_lab.studies.search.ending import decide_next
from ledger_lab.studies.search.trials import Place, SeedRun, Trial, cohort_of

_ROUNDING_S = 0.001
"""What a cap may differ by [s]: ``train.py`` gets milliseconds."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A training of a search, as the ledger shows it."""

    trial: Trial
    """Its trial, with this training only."""
    run: SeedRun
    """The training."""

    @property
    def place(self) -> Place:
        """What it was run for."""
        return Place(self.trial.number, self.run.repeat, self.run.sealed)

    def follows_from(self, decision: Decision) -> bool:
        """Tell whether a decision is to start this training, with the same place, values, seed and cap."""
        if not isinstance(decision, Start):
            return False
        if (decision.place, decision.values, decision.seed) != (self.place, self.trial.values, self.run.seed):
            return False
        decided_s, recorded_s = decision.cap_s, self.run.cap_s
        if decided_s is None or recorded_s is None:
            return decided_s is recorded_s
        return math.isclose(decided_s, recorded_s, rel_tol=0.0, abs_tol=_ROUNDING_S)


def bench_search_replay(argv: Sequence[str]) -> int:
    """Decide each training of a recorded search again.

    Args:
        argv: Command line without the program's name.

    Returns:
        0 if all decisions are those of the search, 1 otherwise.

    Raises:
        UserError: If the ledger has no training of the search, or one has not ended.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks search_replay",
        description="Decide each training of a search again, from the ledger as it was before this training, and "
        "compare: the trial, its values, the seed and the cap. This needs a search without --on, whose trainings ran "
        "one after the other. Nothing is trained.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks search_replay ant_recipe --log_root logs",
    )
    parser.add_argument("search", metavar="SEARCH", help="Search file: a name from config/searches, or your own file.")
    parser.add_argument(
        "--log_root", type=Path, default=Path("logs"), help="Root folder of the ledger (default: %(default)s)."
    )
    add_json(parser, "the number of decisions, and those that differ,")
    args = parser.parse_args(argv)
    search = Search(load_search(find_search(args.search)), args.log_root, None)
    runs, _ = search.look()
    recorded = recorded_trainings(runs)
    decided = [decide_again(search, runs, recorded[:number], each) for number, each in enumerate(recorded)]
    different = [each for each, decision in zip(recorded, decided, strict=True) if not each.follows_from(decision)]
    names = [f"{cohort_of(search.declaration, each.place)}, seed {each.run.seed}" for each in different]
    same = len(recorded) - len(different)
    console = make_console()
    console.print(f"{same} of {len(recorded)} trainings follow from the ledger before them", soft_wrap=True)
    console.print(*(f"another decision: {name}" for name in names), sep="\n", end="\n" if names else "", soft_wrap=True)
    write_findings(args.json, search=search.declaration.name, trainings=len(recorded), same=same, different=names)
    return 1 if different else 0


def recorded_trainings(runs: SearchRuns) -> list[Recorded]:
    """Return the trainings of a search in the order of their starts.

    Args:
        runs: What the ledger says of the search.

    Raises:
        UserError: If there are none, or one has not ended.
    """
    name = runs.declaration.name
    found = [Recorded(trial=replace(trial, runs=(run,)), run=run) for trial in runs.trials for run in trial.runs]
    if not found:
        raise UserError(
            f"{runs.log_root} has no training of the search {name}: name the root of its ledger (--log_root)"
        )
    if any(not each.run.outcome.is_final for each in found):
        raise UserError(f"a training of the search {name} has not ended: start search.py again, or wait")
    return sorted(found, key=lambda each: each.run.started_s)


def decide_again(search: Search, runs: SearchRuns, before: Sequence[Recorded], then: Recorded) -> Decision:
    """Decide as the search decided when it started a training.

    Args:
        search: The search.
        runs: What the ledger says of it now.
        before: The trainings before this one.
        then: This training. No trial above it had been refused.
    """
    trials: dict[int, Trial] = {}
    for each in before:
        known = trials.get(each.trial.number)
        trials[each.trial.number] = each.trial if known is None else replace(known, runs=(*known.runs, each.run))
    newest = max(then.trial.number, *trials, 0)
    situation = Situation.of(
        search.declaration,
        list(trials.values()),
        price=search.price,
        skipped={number for number in runs.skipped if number < newest},
        refuses=search.refuses,
    )
    try:
        return decide_next(situation)
    except UserError as error:  # the search would have ended
        return End(str(error))
