"""``scripts/report.py --compare A B``: two runs or two cohorts against each other."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from ledger_lab.costs import Price
from ledger_lab.errors import UserError
from ledger_lab.ledger import Run
from ledger_lab.reports import render_repricing, summarize_run
from ledger_lab.reports.compare import Finding, Side, compare, refusals, select_side
from ledger_lab.reports.comparison_words import finding_notes, finding_sentence, outcome_lines
from ledger_lab.terminal.console import make_console


@dataclass(frozen=True)
class RunComparison:
    """Two sides, and the verdict about them."""

    sides: tuple[Side, Side]
    verdict: Finding
    asked: Price | None
    """Price that stands in place of the declared ones."""


def compare_runs(
    a: str, b: str, runs: Sequence[Run], price: Price | None, declared_sizes: Mapping[str, int] | None = None
) -> RunComparison:
    """Compare two sides.

    Args:
        a: A cohort, a run id, or the beginning of one.
        b: The other one.
        runs: All runs of the ledger.
        price: Price to use in place of the declared ones.
        declared_sizes: Declared sizes of cohorts, by their names.

    Returns:
        The comparison.

    Raises:
        UserError: If a name stands for nothing, or the sides do not measure the same thing. Each differing field is
            printed to standard error before.
    """
    side_a, side_b = (select_side(name, runs, lambda run: summarize_run(run, price), declared_sizes) for name in (a, b))
    differences = refusals(side_a, side_b)
    if differences:
        make_console(sys.stderr).print(*map(str, differences), sep="\n", soft_wrap=True)
        count = f"{len(differences)} field{'s' if len(differences) != 1 else ''}"
        raise UserError(
            f"{a} and {b} do not measure the same thing: the {count} above differ; compare runs of one task, panel, "
            "target and cost window"
        )
    return RunComparison((side_a, side_b), compare(side_a, side_b, priced_alike=price is not None), price)


def comparison_json(comparison: RunComparison) -> dict[str, Any]:
    """Return a comparison as plain JSON values, its words included."""
    verdict, asked = comparison.verdict, comparison.asked
    words = {"verdict": finding_sentence(verdict), "notes": finding_notes(verdict)}
    prices = {
        "asked_price": None if asked is None else asked.to_dict(),
        "declared_prices": {s.run_id: s.declared_price for side in comparison.sides for s in side.summaries},
    }
    return {**verdict.to_json(), **prices, **words}


def show_comparison(comparison: RunComparison) -> None:
    """Print a verdict: its sentence, what one must know to believe it, every run, and what else differs."""
    console, verdict = make_console(), comparison.verdict
    if comparison.asked is not None:
        summaries = [summary for side in comparison.sides for summary in side.summaries]
        console.print(render_repricing(comparison.asked, summaries))
    console.print(f"A = {verdict.a} · B = {verdict.b}", soft_wrap=True)
    console.print(finding_sentence(verdict), style="bold", soft_wrap=True)
    console.print(*(f"  {note}" for note in finding_notes(verdict)), sep="\n", soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("side", "run", "seed", "to target", "spend"):
        table.add_column(name, justify="left" if name in ("side", "run") else "right", no_wrap=True)
    for line in outcome_lines(verdict):
        table.add_row(*line)
    console.print(table)
    if verdict.differs:
        console.print("What else differs, and may be why:")
    console.print(*(f"  {difference}" for difference in verdict.differs), sep="\n", soft_wrap=True)
