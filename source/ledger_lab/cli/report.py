"""``scripts/report.py``: shows the ledger as a table, JSON or a page. Needs neither torch nor Isaac Lab."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ledger_lab.cli.report_request import SHOWN_RUNS as _SHOWN_RUNS
from ledger_lab.cli.report_request import ReportRequest
from ledger_lab.cli.table import show_table
from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import Ledger, Run, read_ledger
from ledger_lab.ledger.cores import map_on_cores, no_collection
from ledger_lab.ledger.costs import Price, load_price_book
from ledger_lab.ledger.find import find_run, require_ledger, tell_damage, telling_damage
from ledger_lab.reports import CohortSummary, RunSummary, summarize_cohorts, summarize_run
from ledger_lab.reports.cohort_summary import Contents, EarlierRuns, find_earlier_runs
from ledger_lab.reports.terminal.console import make_console, write_json
from ledger_lab.reports.terminal.progress import ReadingProgress
from ledger_lab.tasks.pretrained import ROOT, shipped_tasks

_BATCH, _PARALLEL_FROM = 32, 256
"""Runs per batch of one process, and smallest number of runs that are summarized on several cores."""

_EXPLAINED_ROWS = 200_000
"""Largest number of rows for which bottlenecks are computed if the user names no runs."""


@no_collection()
def build_report(argv: Sequence[str]) -> int:
    """Print the report.

    Args:
        argv: Command line without the program's name.

    Returns:
        0, or 1 if damaged runs were left out.

    Raises:
        UserError: If there is no such ledger or run, or every run is damaged.
    """
    request = ReportRequest.parse(argv)
    if request.schema:
        from ledger_lab.cli.query import show_schema  # queries take longer to load than most reports

        show_schema()
        return 0
    if request.published:
        from ledger_lab.studies.commands.scaling import show_published

        show_published(request.json)
        return 0
    if request.follow is not None and request.html is not None:
        from ledger_lab.cli.page import follow_page

        follow_page(request, request.html, request.follow)
    ledger = whole_ledger(request.log_root)
    runs, price = selected_runs(ledger.runs, request.runs, request.log_root), request.price()
    if request.compare is not None:
        _compare(request, request.compare, ledger, runs, price)
        return 1 if ledger.damage else 0
    limitless = (request.json, request.sql, request.figures, request.recommend)
    if all(each is None for each in limitless) and (older := len(runs) - _SHOWN_RUNS) > 0:
        make_console(sys.stderr).print(
            f"a report shows {_SHOWN_RUNS} runs, so the {older} oldest of {len(runs)} are left out; to show others, "
            "name runs or cohorts: report.py COHORT; --json writes all of them",
            soft_wrap=True,
        )
        runs = newest_runs(runs)
    contents = Contents(runs, *summarize_selected(ledger, runs, price))
    if request.sql is not None:
        from ledger_lab.cli.query import answer_sql

        answer_sql(contents, request.sql, json_file=request.json, csv_file=request.csv)
    elif request.recommend is not None:
        from ledger_lab.studies.commands.recommend import show_recommendation

        show_recommendation(
            contents,
            request.recommend,
            target=request.target,
            deadline_s=request.deadline,
            budget_usd=request.budget,
            book=load_price_book(request.prices),
            price=price,
            json_file=request.json,
        )
    elif request.figures is not None:
        from ledger_lab.studies.commands.figures import write_figures

        write_figures(request.figures, contents, price)
    elif request.scaling:
        from ledger_lab.studies.commands.scaling import show_scaling

        declared = [cohort for cohort in ledger.cohorts if not request.runs or cohort.name in request.runs]
        show_scaling(contents, price, request.json, declared)
    elif request.html is not None:
        from ledger_lab.cli.page import draw_page

        draw_page(request, request.html, ledger, contents, price)
    else:
        explained = bool(request.runs) or sum(run.rows for run in ledger.runs) <= _EXPLAINED_ROWS
        show_table(request, ledger, contents, price, explained=explained)
    return 1 if ledger.damage else 0


def _compare(
    request: ReportRequest, sides: tuple[str, str], ledger: Ledger, runs: Sequence[Run], price: Price | None
) -> None:
    """Compare two sides, on the terminal or as JSON."""
    from ledger_lab.reports.comparing import compare_runs, comparison_json, show_comparison

    sizes = {cohort.name: cohort.size for cohort in ledger.cohorts}
    comparison = compare_runs(*sides, runs, price, declared_sizes=sizes)
    if request.json is None:
        show_comparison(comparison)
    else:
        write_json(request.json, comparison_json(comparison))


def newest_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the runs that a report shows if there are too many.

    Args:
        runs: Runs, oldest first.
    """
    return [*runs[-_SHOWN_RUNS:]]


def whole_ledger(log_root: Path) -> Ledger:
    """Read a ledger that has at least one run.

    Args:
        log_root: Its root.

    Raises:
        UserError: If there is no run, or every run is damaged.
    """
    require_ledger(log_root)
    with telling_damage(), ReadingProgress(make_console(sys.stderr), "reading journals, MB") as progress:
        ledger = read_ledger(log_root, on_progress=progress.show, tolerate_damage=True)
        if ledger.damage and not ledger.runs:
            raise ledger.damage[0]
    tell_damage(ledger.damage)
    if not ledger.runs:
        raise UserError(f"no runs under {log_root}: train first, or name another root with --log_root")
    return ledger


def summarize_selected(
    ledger: Ledger,
    runs: Sequence[Run],
    price: Price | None = None,
) -> tuple[list[RunSummary], list[CohortSummary]]:
    """Summarize some runs, and their whole cohorts.

    Args:
        ledger: The ledger.
        runs: The requested runs.
        price: Price that replaces the declared prices.

    Returns:
        One summary per requested run; and one per cohort, task and panel, over all runs of the cohort.
    """
    chosen = {run.run_id for run in runs}
    named = {run.cohort for run in runs} - {None}
    together = [run for run in ledger.runs if run.run_id in chosen or run.cohort in named]
    summaries = summarize_runs(together, price)
    known = {summary.run_id: summary for summary in summaries}
    by_id = {run.run_id: run for run in ledger.runs}
    found = summarize_runs(find_earlier_runs(summaries, partial(_begun_with, by_id)), price)
    earlier = EarlierRuns(known | {summary.run_id: summary for summary in found}, repriced=price is not None)
    declarations = {run.run_id: run.declared for run in together}
    return [known[run.run_id] for run in runs], summarize_cohorts(summaries, ledger.cohorts, earlier, declarations)


def _begun_with(by_id: Mapping[str, Run], began: Mapping[str, Any]) -> Run | None:
    """Return the run whose checkpoint another run began with: a run of the ledger, or that of a pretrained policy."""
    found, task = by_id.get(began["run_id"]), str(began["task"])
    if found is None and task in shipped_tasks():
        shipped = find_run(str(ROOT / task), ROOT)
        return shipped if shipped.run_id == began["run_id"] else None
    return found


def summarize_runs(runs: Sequence[Run], price: Price | None = None) -> list[RunSummary]:
    """Compute every figure of each run; many runs are distributed over all cores.

    Args:
        runs: The runs.
        price: Price that replaces the declared prices.
    """
    batches = [runs[start : start + _BATCH] for start in range(0, len(runs), _BATCH)]
    summarized = map_on_cores(partial(_summarize_batch, price), batches, parallel=len(runs) >= _PARALLEL_FROM)
    return [summary for batch in summarized for summary in batch]


def _summarize_batch(price: Price | None, runs: Sequence[Run]) -> list[RunSummary]:
    """Compute every figure of a batch of runs."""
    return [summarize_run(run, price) for run in runs]


def selected_runs(runs: Sequence[Run], prefixes: Sequence[str], log_root: Path) -> list[Run]:
    """Return the requested runs.

    Args:
        runs: All runs.
        prefixes: Run ids, their beginnings, or names of cohorts; empty for all runs.
        log_root: Root of the ledger.

    Raises:
        UserError: If no run id starts with a prefix, and no cohort is named like it.
    """
    cohorts = {run.cohort for run in runs}
    for prefix in prefixes:
        if not prefix:
            raise UserError("'' names no run or cohort: leave it out to show all runs")
        if prefix not in cohorts and not any(run.run_id.startswith(prefix) for run in runs):
            known = [run.run_id for run in runs] + [cohort for cohort in cohorts if cohort is not None]
            raise UserError(f"no run or cohort {prefix!r} under {log_root}: {nearest(prefix, known)}")
    if not prefixes:
        return list(runs)
    begun = tuple(prefixes)
    return [run for run in runs if run.run_id.startswith(begun) or run.cohort in begun]
