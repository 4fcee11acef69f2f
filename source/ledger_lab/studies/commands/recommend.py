"""``scripts/report.py --recommend``. Imports neither torch nor Isaac Lab."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import Run
from ledger_lab.ledger.costs import Price
from ledger_lab.reports import render_repricing
from ledger_lab.reports.cohort_summary import Contents
from ledger_lab.reports.terminal.console import make_console, write_json
from ledger_lab.studies.recommend.choice import Limits
from ledger_lab.studies.recommend.recommendation import of_one_yardstick, recommend
from ledger_lab.studies.recommend.view import recommendation_json, render_recommendation
from ledger_lab.studies.scaling.scaled_runs import scaled_runs


def show_recommendation(
    contents: Contents,
    task: str,
    *,
    target: float | None,
    deadline_s: float | None,
    budget_usd: float | None,
    book: Mapping[str, Price],
    price: Price | None = None,
    json_file: str | None = None,
) -> None:
    """Show which configuration to train a task with, or write it as JSON.

    Args:
        contents: The runs to choose from, and their summaries.
        task: The task.
        target: As ``--target``; ``None`` if all runs have the same.
        deadline_s: Longest wall-clock time to the target [s]; ``None`` for any.
        budget_usd: Largest cost per target-reaching checkpoint [USD]; ``None`` for any.
        book: The price book.
        price: Price that replaces the declared prices.
        json_file: File for JSON; ``-`` for standard output; ``None`` for text on the terminal.

    Raises:
        UserError: If there is nothing to rank.
    """
    if budget_usd is not None and not 0 < budget_usd < math.inf:
        raise UserError(f"--budget {budget_usd:g}: give an amount of more than 0 [USD]")
    pairs = [pair for pair in zip(contents.runs, contents.summaries, strict=True) if pair[0].declared.task == task]
    if not pairs:
        known = sorted({run.declared.task for run in contents.runs})
        raise UserError(f"--recommend {task}: no run of this task; {nearest(task, known)}")
    begun = [pair for pair in pairs if pair[0].attempts]
    if not begun:
        raise UserError(f"--recommend {task}: no run of this task has begun to train yet")
    runs, summaries = zip(*begun, strict=True)
    _require_one_machine(runs, price)
    chosen = of_one_yardstick(scaled_runs(runs, summaries, price), target)
    limits = Limits(deadline_s=deadline_s, budget_usd=budget_usd)
    found = recommend(chosen, book, limits, never_began=len(pairs) - len(begun))
    if json_file is not None:
        asked = None if price is None else price.to_dict()
        report = {"asked_price": asked, **recommendation_json(found)}
        write_json(json_file, report)
        return
    console = make_console()
    if price is not None:
        ids = {each.run_id for each in chosen}
        console.print(render_repricing(price, [each for each in contents.summaries if each.run_id in ids]))
    console.print(render_recommendation(found, console.width))


def _require_one_machine(runs: Sequence[Run], price: Price | None) -> None:
    """Refuse one price for several machines: their costs could not be compared."""
    declared = sorted({str(run.declared.price["instance"]) for run in runs})
    if price is not None and len(declared) > 1:
        raise UserError(
            f"--recommend: --instance and --usd_per_hour set one price, and the runs are of several machines "
            f"({', '.join(declared)}): leave the flags out, or name the runs of one machine"
        )
