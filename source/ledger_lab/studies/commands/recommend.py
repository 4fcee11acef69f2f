"""``scripts/report.py recommend``. Imports neither torch nor Isaac Lab."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import MISSING, dataclass

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import Run
from ledger_lab.ledger.cores import no_collection
from ledger_lab.ledger.costs.prices import Price
from ledger_lab.reports import render_repricing
from ledger_lab.reports.selection import PricedRequest, json_flag, runs_flag, select
from ledger_lab.reports.terminal.console import make_console, write_json
from ledger_lab.reports.terminal.durations import parse_duration
from ledger_lab.reports.terminal.request import Program, flag
from ledger_lab.studies.recommend.recommendation import Limits, of_one_yardstick, recommend
from ledger_lab.studies.recommend.view import recommendation_json, render_recommendation
from ledger_lab.studies.scaling.points import scaled_runs


@dataclass(frozen=True, kw_only=True)
class RecommendRequest(PricedRequest):
    """What a user asks of ``scripts/report.py recommend``: each field is an argument or a flag of the same name."""

    program = Program(
        name="report.py recommend",
        description=(
            "Show which machine, library, and number of processes and environments train a task in the least time and "
            "for the least money. All runs must have the same target and panel; configurations are ranked if they "
            "have at least five runs."
        ),
        examples=(
            "report.py recommend LedgerLab-Cartpole --deadline 2h",
            "report.py recommend LedgerLab-Cartpole --budget 0.5",
        ),
    )

    task: str = flag(MISSING, "The task to train.", metavar="TASK", positional=True)
    runs: tuple[str, ...] = runs_flag()
    deadline: float | None = flag(
        None,
        "Find the cheapest configuration whose runs reach the target within this wall-clock time, such as 90m or 2h, "
        "with a probability of at least 90 %%.",
        metavar="TIME",
        parse=parse_duration,
    )
    budget: float | None = flag(
        None,
        "Find the fastest configuration whose expected cost to reach the target, failed runs included, is at most "
        "this [USD], with a probability of at least 90 %%.",
        metavar="USD",
    )
    target: float | None = flag(
        None, "Use only runs that were trained to this success rate, such as 0.9.", metavar="SHARE"
    )
    json: str | None = json_flag()

    def __post_init__(self) -> None:
        """Check the budget, and refuse a price file that would be ignored.

        Raises:
            UserError: If it is no amount of money, or no entry of the price file is named.
        """
        super().__post_init__()
        if self.budget is not None and not 0 < self.budget < math.inf:
            raise UserError(f"--budget {self.budget:g}: give an amount of more than 0 [USD]")


@no_collection()
def report_recommendation(argv: Sequence[str]) -> int:
    """Show which configuration to train a task with, or write it as JSON.

    Args:
        argv: Command line without the program's name.

    Returns:
        0, or 1 if damaged runs were left out.

    Raises:
        UserError: If there is no such ledger or run, or there is nothing to rank.
    """
    request = RecommendRequest.parse(argv)
    selection, task = select(request, request.runs), request.task
    contents, price = selection.contents, selection.price
    pairs = [pair for pair in zip(contents.runs, contents.summaries, strict=True) if pair[0].declared.task == task]
    if not pairs:
        known = sorted({run.declared.task for run in contents.runs})
        raise UserError(f"recommend {task}: no run of this task; {nearest(task, known)}")
    begun = [pair for pair in pairs if pair[0].attempts]
    if not begun:
        raise UserError(f"recommend {task}: no run of this task has begun to train yet")
    runs, summaries = zip(*begun, strict=True)
    _require_one_machine(runs, price)
    chosen = of_one_yardstick(scaled_runs(runs, summaries, price), request.target)
    limits = Limits(deadline_s=request.deadline, budget_usd=request.budget)
    found = recommend(chosen, limits, never_began=len(pairs) - len(begun))
    if request.json is not None:
        write_json(request.json, {"asked_price": selection.asked_price, **recommendation_json(found)})
        return selection.status
    console = make_console()
    if price is not None:
        ids = {each.run_id for each in chosen}
        console.print(render_repricing(price, [each for each in contents.summaries if each.run_id in ids]))
    console.print(render_recommendation(found, console.width))
    return selection.status


def _require_one_machine(runs: Sequence[Run], price: Price | None) -> None:
    """Refuse one price for several machines: their costs could not be compared."""
    declared = sorted({str(run.declared.price["instance"]) for run in runs})
    if price is not None and len(declared) > 1:
        raise UserError(
            f"recommend: --instance and --usd_per_hour set one price, and the runs are of several machines "
            f"({', '.join(declared)}): leave the flags out, or name the runs of one machine"
        )
