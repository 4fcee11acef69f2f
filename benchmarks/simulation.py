"""Shared by the benchmarks that simulate many scenarios: their flags, and their progress."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from rich.console import Console

from benchmarks.comparison import add_json
from ledger_lab.errors import UserError
from ledger_lab.reports.terminal.progress import Progress


def parse_simulation(
    parser: argparse.ArgumentParser, argv: Sequence[str], *, count: str, what: str, default: int
) -> argparse.Namespace:
    """Add the flags of a simulation to a command line, and parse it.

    Args:
        parser: Command line of the benchmark, with its other flags.
        argv: Command line without the program's name.
        count: Flag with the number of simulations in each scenario, like ``--studies``.
        what: What this flag counts, for the help.
        default: Its default.

    Raises:
        UserError: If the number is not positive, or the seed is negative.
    """
    parser.add_argument(count, type=int, default=default, help=f"{what} (default: {default}).")
    parser.add_argument("--seed", type=int, default=1, help="Seed of the simulation (default: 1).")
    add_json(parser, "the counts of every scenario")
    args = parser.parse_args(argv)
    if getattr(args, count.removeprefix("--")) < 1 or args.seed < 0:
        raise UserError(f"{count} must be at least 1, and --seed at least 0")
    return args


def with_progress[T](scenarios: Sequence[T], console: Console) -> Iterator[T]:
    """Yield scenarios, and show how many of them are done.

    Args:
        scenarios: The scenarios.
        console: Where to show it.
    """
    with Progress(console, "scenarios", len(scenarios)) as progress:
        for number, scenario in enumerate(scenarios, start=1):
            yield scenario
            progress.advance(number)
