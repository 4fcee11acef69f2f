"""``scripts/report.py`` without another view: the table of runs, or all their figures as JSON."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from rich.text import Text

from ledger_lab.cli.report_request import ReportRequest
from ledger_lab.ledger import Ledger, Run
from ledger_lab.ledger.costs import Price
from ledger_lab.reports import (
    Bottleneck,
    RunSummary,
    absent_cohort_lines,
    find_bottlenecks,
    render_checkpoints,
    render_report,
    render_repricing,
    summarize_run,
)
from ledger_lab.reports.cohort_summary import Contents, missing_runs
from ledger_lab.reports.terminal.console import make_console, write_json
from ledger_lab.reports.watch import AlertKind, watch_ledger
from ledger_lab.reports.watch.words import alert_lines


def show_table(
    request: ReportRequest, ledger: Ledger, contents: Contents, price: Price | None, *, explained: bool
) -> None:
    """Show the table of runs, or write all figures as JSON.

    Args:
        request: What the user asked for.
        ledger: The whole ledger.
        contents: The selected runs.
        price: Price that replaces the declared prices.
        explained: Whether to find the bottlenecks of the runs.

    Raises:
        UserError: If the JSON file can't be written.
    """
    runs, summaries, cohorts = contents.runs, contents.summaries, contents.cohorts
    bottlenecks = _bottlenecks(ledger, runs, summaries) if explained else {}
    if request.json is not None:
        found = {run_id: bottleneck.to_json() for run_id, bottleneck in bottlenecks.items()}
        missing = missing_runs(ledger.cohorts, summaries)
        report = {
            "asked_price": None if price is None else price.to_dict(),
            "runs": [{**s.to_json(), "bottleneck": found.get(s.run_id)} for s in summaries],
            "bottlenecks_left_out": not explained,
            "cohorts": [c.to_json() for c in cohorts],
            "declared_cohorts": [
                {"cohort": c.name, "declared_runs": c.size, "missing_runs": missing[c.name], "runs": list(c.run_ids)}
                for c in ledger.cohorts
            ],
        }
        write_json(request.json, report)
        return
    console = make_console()
    if price is not None:
        console.print(render_repricing(price, summaries))
    console.print(render_report(summaries, cohorts, console.width, bottlenecks))
    if not request.runs:
        for line in absent_cohort_lines(ledger.cohorts):
            console.print(line)
    for line in _alert_lines(ledger, {run.run_id for run in runs}, everything=not request.runs, price=price):
        console.print(line, soft_wrap=True)
    if not explained:
        rows = sum(run.rows for run in ledger.runs)
        console.print(f"bottlenecks and advice are left out over {rows} rows: name the runs to explain")
    if request.checkpoints:
        for summary in summaries:
            console.print(render_checkpoints(summary, console.width), "")


def _alert_lines(ledger: Ledger, shown: set[str], *, everything: bool, price: Price | None) -> list[Text]:
    """Return the alerts about the shown runs, and, if all runs are shown, about machines; no engine is asked.

    Health events are left out, because the table tells them already.
    """
    found = watch_ledger(ledger, now=datetime.datetime.now(datetime.UTC), price=price)
    told = [alert for alert in found.alerts if alert.kind is not AlertKind.HEALTH]
    return alert_lines(each for each in told if each.subject in shown or (everything and each.subject_kind != "run"))


def _bottlenecks(ledger: Ledger, runs: Sequence[Run], summaries: Sequence[RunSummary]) -> dict[str, Bottleneck]:
    """Find the bottlenecks of runs; advice uses all runs of the ledger."""
    known = {run.run_id: summary for run, summary in zip(runs, summaries, strict=True)}
    everything = [(run, known.get(run.run_id) or summarize_run(run)) for run in ledger.runs]
    return find_bottlenecks(runs, summaries, everything)
