"""``python -m benchmarks coverage``: how often each interval and each claim that LedgerLab prints is wrong."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table

from benchmarks.coverage import costs, forecasts, laws, policies, recommendations, runs
from benchmarks.coverage.case import Case, Found
from benchmarks.simulation import parse_simulation, with_progress
from ledger_lab.errors import UserError
from ledger_lab.ledger.cores import map_on_cores
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.units import MISSING, percent

SUBJECTS = (policies, costs, runs, recommendations, forecasts, laws)
CASES = tuple(case for subject in SUBJECTS for case in subject.CASES)
"""All cases. Each module of this package has those of one subject."""


def bench_coverage(argv: Sequence[str]) -> int:
    """Simulate what the product prints where the truth is known, and print how often it is wrong.

    Args:
        argv: Command line without the program's name.

    Returns:
        1 if something is wrong more often than promised, otherwise 0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks coverage",
        description="Simulate runs whose truth is known, let the product's own functions report on them, and count how "
        "often an interval misses the truth or a claim is false. The exit status is 1 if this happens more often "
        "than promised.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks coverage --only 'proven policy' --trials 5000",
    )
    parser.add_argument("--only", metavar="TEXT", default="", help="Only figures whose name contains this text.")
    args = parse_simulation(parser, argv, count="--trials", what="Usual number of simulations of a case", default=1000)
    cases = [case for case in CASES if args.only in case.figure]
    if not cases:
        raise UserError(f"--only {args.only}: no figure has this in its name")
    console = make_console()
    # Cases with the same random numbers share their simulations, so the same process examines them.
    groups = [[*group] for _, group in itertools.groupby(cases, lambda case: case.numbers)]

    def examine(group: Sequence[Case]) -> list[Found]:
        return [case.examine(args.trials, args.seed) for case in group]

    # The first group comes before the progress, whose thread a fork would inherit.
    examined = zip(map_on_cores(examine, groups), with_progress(groups, console), strict=False)
    found = [each for of_group, _ in examined for each in of_group]
    table = Table("figure", "truth", "n", "printed", "wrong", "allowed", "holds", box=None, pad_edge=False)
    for each in found:
        table.add_row(each.figure, each.about, str(each.n), *_cells(each))
    console.print(table)
    broken = [each for each in found if not each.holds]
    for each in broken:
        console.print(f"does not hold: {each.figure}, {each.about}, n = {each.n}", soft_wrap=True)
    rows = [asdict(each) | {"share": each.share, "error": each.error, "holds": each.holds} for each in found]
    write_findings(args.json, seed=args.seed, all_hold=not broken, cases=rows)
    return 1 if broken else 0


def _cells(found: Found) -> list[str]:
    """Return the numbers of a row: printed, wrong with its error, allowed, and whether it holds."""
    share = MISSING
    if found.share is not None and found.error is not None:
        share = f"{percent(found.share)} ± {percent(found.error)}"
    return [percent(found.printed / found.trials, 0), share, percent(found.allowed), "yes" if found.holds else "NO"]
