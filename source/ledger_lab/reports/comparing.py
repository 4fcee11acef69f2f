"""Compares two runs or two cohorts, and shows the finding."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from ledger_lab.errors import UserError
from ledger_lab.ledger import Run
from ledger_lab.ledger.costs import Price
from ledger_lab.reports import render_repricing, summarize_run
from ledger_lab.reports.compare import Finding, Side, compare, refusals, select_side
from ledger_lab.reports.comparison_words import finding_notes, finding_sentence, outcome_lines
from ledger_lab.reports.corrected_tests import CorrectedTests
from ledger_lab.reports.terminal.console import make_console


@dataclass(frozen=True)
class RunComparison:
    """Two sides, and the finding about them."""

    sides: tuple[Side, Side]
    finding: Finding
    asked: Price | None
    """Price that replaces the declared prices; ``None`` to keep them."""


def compare_runs(
    a: str, b: str, runs: Sequence[Run], price: Price | None, declared_sizes: Mapping[str, int] | None = None
) -> RunComparison:
    """Compare two sides.

    Args:
        a: A cohort, a run id, or the beginning of one.
        b: A cohort, a run id, or the beginning of one.
        runs: All runs of the ledger.
        price: Price that replaces the declared prices.
        declared_sizes: Declared sizes of cohorts, by their names.

    Returns:
        The comparison.

    Raises:
        UserError: If a name matches nothing, or the sides do not measure the same thing. In the latter case, each
            differing field is printed to standard error first.
    """
    side_a, side_b = (select_side(name, runs, lambda run: summarize_run(run, price), declared_sizes) for name in (a, b))
    differences = refusals(side_a, side_b)
    if differences:
        make_console(sys.stderr).print(*map(str, differences), sep="\n", soft_wrap=True)
        count = f"{len(differences)} field{'s' if len(differences) != 1 else ''}"
        raise UserError(
            f"{a} and {b} do not measure the same thing: the {count} above differ, and must be the same in all runs"
        )
    return RunComparison((side_a, side_b), compare(side_a, side_b, priced_alike=price is not None), price)


def comparison_json(comparison: RunComparison) -> dict[str, Any]:
    """Return a comparison as plain JSON values, with its sentences."""
    finding, asked = comparison.finding, comparison.asked
    words = {"verdict": finding_sentence(finding), "notes": finding_notes(finding)}
    prices = {
        "asked_price": None if asked is None else asked.to_dict(),
        "declared_prices": {s.run_id: s.declared_price for side in comparison.sides for s in side.summaries},
    }
    return {**finding.to_json(), **prices, **words}


def show_comparison(comparison: RunComparison, corrected: CorrectedTests | None = None) -> None:
    """Print a finding: its sentence, its notes, every run, and other differences between the sides.

    Args:
        comparison: The comparison.
        corrected: Its p-values, corrected for the number of tests, if it is one of several comparisons.
    """
    console, finding = make_console(), comparison.finding
    if comparison.asked is not None:
        summaries = [summary for side in comparison.sides for summary in side.summaries]
        console.print(render_repricing(comparison.asked, summaries))
    console.print(f"A = {finding.a} · B = {finding.b}", soft_wrap=True)
    console.print(finding_sentence(finding, corrected), style="bold", soft_wrap=True)
    console.print(*(f"  {note}" for note in finding_notes(finding, corrected)), sep="\n", soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("side", "run", "seed", "to target", "spend"):
        table.add_column(name, justify="left" if name in ("side", "run") else "right", no_wrap=True)
    for line in outcome_lines(finding):
        table.add_row(*line)
    console.print(table)
    if finding.differs:
        console.print("What else differs, and may be why:")
    console.print(*(f"  {difference}" for difference in finding.differs), sep="\n", soft_wrap=True)
