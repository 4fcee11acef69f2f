"""``scripts/report.py``: the table of runs, and its views. Needs neither torch nor Isaac Lab."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ledger_lab.errors import UserError
from ledger_lab.ledger import LedgerDamageError
from ledger_lab.ledger.cores import no_collection
from ledger_lab.reports import (
    absent_cohort_lines,
    render_cohort,
    render_report,
    render_repricing,
    render_run,
)
from ledger_lab.reports.cohort_summary import missing_runs
from ledger_lab.reports.selection import (
    SHOWN_RUNS,
    PricedRequest,
    Selection,
    json_flag,
    runs_flag,
    select,
    summarize_runs,
)
from ledger_lab.reports.terminal.console import make_console, write_json
from ledger_lab.reports.terminal.request import Program, flag
from ledger_lab.wings import PARTS, required_part

if TYPE_CHECKING:
    from ledger_lab.reports.bottleneck import Bottleneck

VIEWS = {
    "compare": "ledger_lab.cli.compare:compare_sides",
    "page": "ledger_lab.cli.page:draw_page",
    "query": "ledger_lab.cli.query:answer_query",
    "scaling": "scaling view",
    "recommend": "recommend view",
}
"""Views of a ledger beside the table, by their names on the command line: a function, or the part of a wing."""

_COMPARED = 100
"""Largest number of other runs that advice compares with; the newest ones."""


@dataclass(frozen=True, kw_only=True)
class ReportRequest(PricedRequest):
    """What a user asks of ``scripts/report.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="report.py",
        description=(
            "Show the results of every run of a ledger: status, held-out success, time to the target, cost and "
            "environment steps per second. Failed runs are shown, too. If you name one run, the report shows "
            "everything about it. "
            f"The table shows at most {SHOWN_RUNS} runs, the newest ones. To show others, name runs or cohorts; "
            "--json writes all runs. If a journal of one of these runs is damaged, that run is left out, and the "
            "exit status is 1. scripts/verify_ledger.py then shows the damage.\n\n"
            "views (report.py VIEW --help explains a view):\n"
            "  compare    compare two cohorts or runs: time to the target, and cost\n"
            "  page       write an HTML page with tables and plots\n"
            "  query      answer a query in SQL; without a query, list the tables\n"
            "  scaling    show how runs scale with processes and batch, as tables or as figures\n"
            "  recommend  recommend a machine, library and size for a task"
        ),
        examples=(
            "report.py",
            "report.py COHORT --details",
            "report.py compare time-to-target-stock time-to-target-tuned --log_root records/time-to-target-cpu",
            "report.py page page.html --follow 15",
            'report.py query "SELECT cell, avg(success::INT) FROM episodes GROUP BY cell ORDER BY 2"',
            "report.py scaling",
            "report.py recommend LedgerLab-Cartpole --deadline 2h",
        ),
    )

    runs: tuple[str, ...] = runs_flag()
    json: str | None = json_flag()
    details: bool = flag(
        False,
        "Also show everything about each run: where its time went, how to save most time, and the scores of its "
        "checkpoints.",
    )

    def __post_init__(self) -> None:
        """Refuse a price file that would be ignored, and a view in the wrong place.

        Raises:
            UserError: If no entry of the price file is named, or a view is not the first argument.
        """
        super().__post_init__()
        if self.runs and (view := self.runs[0]) in VIEWS and len(self.runs) > 1:
            raise UserError(f"{view} must come first: report.py {view} …")


@no_collection()
def build_report(argv: Sequence[str]) -> int:
    """Print the report, or another view.

    Args:
        argv: Command line without the program's name.

    Returns:
        0, or 1 if damaged runs were left out.

    Raises:
        UserError: If there is no such ledger or run, or every run is damaged.
    """
    if argv and (view := VIEWS.get(argv[0])):
        show = required_part(view) if view in PARTS else pkgutil.resolve_name(view)
        status: int = show(argv[1:])
        return status
    request = ReportRequest.parse(argv)
    found = select(request, request.runs, most=SHOWN_RUNS if request.json is None else None)
    if request.json is not None:
        write_json(request.json, _as_json(request, found))
    else:
        _show(request, found)
    return found.status


def _as_json(request: ReportRequest, found: Selection) -> dict[str, object]:
    """Return all figures; bottlenecks only of runs that the user names."""
    contents, declared = found.contents, found.ledger.cohorts
    bottlenecks = _bottlenecks(found) if request.runs else {}
    missing = missing_runs(declared, contents.summaries)
    return {
        "asked_price": found.asked_price,
        "runs": [{**vars(each), "bottleneck": bottlenecks.get(each.run_id)} for each in contents.summaries],
        "cohorts": contents.cohorts,
        "declared_cohorts": [
            {"cohort": c.name, "declared_runs": c.size, "missing_runs": missing[c.name], "runs": list(c.run_ids)}
            for c in declared
        ],
    }


def _show(request: ReportRequest, found: Selection) -> None:
    """Print the tables of runs and cohorts, or everything about them."""
    console, contents = make_console(), found.contents
    if found.price is not None:
        console.print(render_repricing(found.price, contents.summaries))
    one = bool(request.runs) and len(contents.summaries) == 1
    if not one:
        console.print(render_report(contents.summaries, contents.cohorts, console.width))
    if one or request.details:
        bottlenecks = _bottlenecks(found)
        for run, summary in zip(contents.runs, contents.summaries, strict=True):
            console.print(render_run(run, summary, bottlenecks.get(summary.run_id), console.width), crop=False)
        for cohort in contents.cohorts:
            if cohort.cohort:
                console.print(render_cohort(cohort, console.width), crop=False)
    if not request.runs:
        for line in absent_cohort_lines(found.ledger.cohorts):
            console.print(line)


def _bottlenecks(found: Selection) -> dict[str, Bottleneck]:
    """Find the bottlenecks of the shown runs; advice also uses the other runs of their tasks."""
    from ledger_lab.reports.bottleneck import find_bottlenecks  # few reports need it

    contents = found.contents
    known, tasks = {each.run_id for each in contents.summaries}, {each.task for each in contents.summaries}
    others = [run for run in found.ledger.runs if run.task in tasks and run.run_id not in known][-_COMPARED:]
    pairs = [*zip(contents.runs, contents.summaries, strict=True)]
    for run, each in zip(others, summarize_runs(others), strict=True):
        if not isinstance(each, LedgerDamageError):
            pairs.append((run, each[0]))
    return find_bottlenecks(contents.runs, contents.summaries, pairs)
