"""``scripts/report.py``: shows the ledger as a table, JSON or a page. Needs neither torch nor Isaac Lab."""

from __future__ import annotations

import datetime
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from rich.text import Text

from ledger_lab.cores import map_on_cores, no_collection
from ledger_lab.costs import Price, load_price_book, resolve_price
from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import Ledger, Run, read_ledger
from ledger_lab.ledger.find import find_run, require_ledger, tell_damage, telling_damage
from ledger_lab.pretrained import ROOT, shipped_tasks
from ledger_lab.reports import (
    Bottleneck,
    CohortSummary,
    RunSummary,
    absent_cohort_lines,
    find_bottlenecks,
    render_checkpoints,
    render_report,
    render_repricing,
    summarize_cohorts,
    summarize_run,
)
from ledger_lab.reports.contents import Contents
from ledger_lab.reports.earlier_runs import EarlierRuns, find_earlier_runs
from ledger_lab.terminal.console import make_console, write_output
from ledger_lab.terminal.durations import parse_duration
from ledger_lab.terminal.flags import Program
from ledger_lab.terminal.progress import ReadingProgress
from ledger_lab.terminal.request import Request, flag, log_root_flag
from ledger_lab.watch import AlertKind, watch_ledger
from ledger_lab.watch.show import alert_lines

_BATCH, _PARALLEL_FROM = 32, 256
"""Runs per batch of one process, and smallest number of runs that are summarized on several cores."""

_SHOWN_RUNS = 1000
"""Largest number of runs in the table or on a page. More runs take minutes to draw, and a browser long to show."""

_LEAST_FOLLOW_S = 1.0
"""Shortest time between two looks at the ledger [s]."""

_EXPLAINED_ROWS = 200_000
"""Largest number of rows for which bottlenecks are computed if the user names no runs."""


@dataclass(frozen=True, kw_only=True)
class ReportRequest(Request):
    """What a user asks of ``scripts/report.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="report.py",
        description=(
            "Show the results of every run of a ledger: status, held-out success, time to the target, cost, "
            "environment steps per second, peak memory and the share of time that evaluation took. Failed runs are "
            "shown, too. "
            f"The table shows at most {_SHOWN_RUNS} runs, the newest ones. To show others, name runs or cohorts; "
            "--json writes all runs. If a journal is damaged, its run is left out, and the exit status is 1. "
            "scripts/verify_ledger.py then shows the damage."
        ),
        terms=("run", "cohort", "target", "held-out", "journal", "ledger", "cell"),
        examples=(
            "report.py --checkpoints",
            "report.py --html page.html",
            "report.py --html page.html --follow 15",
            "report.py --scaling",
            "report.py --recommend LedgerLab-Cartpole --deadline 2h",
            "report.py --log_root records/time-to-target-cpu --compare time-to-target-stock time-to-target-tuned",
            'report.py --sql "SELECT cell, avg(success::INT) FROM episodes GROUP BY cell ORDER BY 2"',
        ),
    )

    runs: tuple[str, ...] = flag(
        (),
        "Run id or name of a cohort (default: all runs). The first characters of an id are enough.",
        metavar="RUN",
        positional=True,
    )
    log_root: Path = log_root_flag()
    json: str | None = flag(None, "Write all results to a JSON file; - means standard output.", metavar="FILE")
    html: Path | None = flag(
        None,
        "Write an HTML page with tables and plots, which works without a network. The page shows at most "
        f"{_SHOWN_RUNS} runs, the newest ones. To show others, name runs or cohorts.",
        metavar="FILE",
    )
    follow: float | None = flag(
        None,
        "With --html: keep running, look at the ledger after each of these periods, and rewrite the page if something "
        "has changed. A browser that shows the file loads it again by itself. Ctrl-C ends. No server is needed, so the "
        "page can lie on shared storage [s].",
        metavar="SECONDS",
    )
    figures: Path | None = flag(
        None,
        "Write the figures of scaling studies as SVG and PNG files into this folder: rate, efficiency, steps, time and "
        "cost to the target, and phases, against the number of processes.",
        metavar="DIR",
    )
    compare: tuple[str, str] | None = flag(
        None,
        "Compare two cohorts or runs. The program prints which side reaches the target sooner, with the ratio of the "
        "two times, and which side is cheaper, with the ratio of the two costs. The ratio of the times has an interval "
        "if both sides have at least two runs, and the ratio of the costs if both have at least five. With at least "
        "five runs on each side, both differences are tested. For two single runs, the program also shows the result "
        "of evaluate.py --versus, if there is one. If A and B cannot be compared, for "
        "example because their panels differ, the program lists what differs and exits with status 2.",
        metavar=("A", "B"),
    )
    sql: str | None = flag(
        None,
        "Print the answer to a query of the ledger, in DuckDB's SQL. --schema lists the tables. --json and --csv "
        "write the answer to a file.",
        metavar="QUERY",
    )
    scaling: bool = flag(
        False,
        "Show how runs scale with the number of processes and the batch: rates, efficiency, waiting, steps, time and "
        "cost to the target by size, the laws that fit, and where the time of each run went. Runs that differ in "
        "anything but their size and seed are shown apart.",
    )
    published: bool = flag(
        False, "Show published rates of one to eight GPUs, analysed like the runs of a ledger. Needs no ledger."
    )
    recommend: str | None = flag(
        None,
        "Show which machine, library, and number of processes and environments train a task in the least time and for "
        "the least money: from measured runs, and from what scaling laws predict. Also shows which next run would be "
        "worth most. All runs must have the same target and panel; configurations are ranked from five runs on.",
        metavar="TASK",
    )
    deadline: float | None = flag(
        None,
        "With --recommend: find the least money that reaches the target in this wall-clock time, such as 90m or 2h.",
        metavar="TIME",
        parse=parse_duration,
    )
    budget: float | None = flag(
        None, "With --recommend: find the least time that reaches the target for this cost [USD].", metavar="USD"
    )
    target: float | None = flag(
        None, "With --recommend: use only runs that were trained to this success rate, such as 0.9.", metavar="SHARE"
    )
    schema: bool = flag(False, "List the tables and columns that --sql can use.")
    csv: str | None = flag(None, "Write the answer to --sql to a CSV file; - means standard output.", metavar="FILE")
    checkpoints: bool = flag(
        False, "Also show the scores, times and memory of every checkpoint, and how training episodes ended."
    )
    instance: str | None = flag(
        None,
        "Compute all costs with the price of this entry of the price file (default: the price that each run "
        "recorded). The report names the recorded and the new price.",
    )
    usd_per_hour: float | None = flag(
        None,
        "Price to compute all costs with [USD/h]. With --instance, it is the price of that machine, and replaces the "
        "price in the price file. Without --instance, it is the price of one GPU, or of the whole machine if the "
        "training ran on its CPU.",
    )
    prices: Path | None = flag(
        None,
        "Your own price file, in addition to config/prices.toml. If both files have an entry of the same name, your "
        "entry is used. scripts/import_prices.py can write a price file.",
        metavar="FILE",
    )

    def __post_init__(self) -> None:
        """Refuse flags that would be ignored.

        Raises:
            UserError: If an argument has no effect together with another argument.
        """
        views = ("html", "figures", "compare", "sql", "scaling", "published", "recommend", "schema")
        self.require_at_most_one(*views)
        unused = next((name for name in ("deadline", "budget", "target") if getattr(self, name) is not None), None)
        if unused is not None and self.recommend is None:
            raise UserError(f"--{unused} needs --recommend TASK")
        if self.csv is not None and self.sql is None:
            raise UserError("--csv needs --sql; to write whole tables, use scripts/export.py --format csv")
        if self.html is not None and self.json is not None:
            raise UserError("--html and --json cannot be used together: call report.py twice")
        if self.figures is not None and self.json is not None:
            raise UserError("--figures and --json cannot be used together: call report.py twice")
        if self.follow is not None and self.html is None:
            raise UserError("--follow needs --html FILE: the page that it rewrites")
        if self.follow is not None and not _LEAST_FOLLOW_S <= self.follow < math.inf:
            raise UserError(f"--follow {self.follow:g}: give at least {_LEAST_FOLLOW_S:g} s")
        other = next((f"--{name}" for name in views if getattr(self, name)), None)
        if self.checkpoints and other is not None:
            raise UserError(f"--checkpoints cannot be used with {other}: leave one of them out")
        ignored = next((name for name in ("json", "runs", "instance", "usd_per_hour") if getattr(self, name)), None)
        if self.schema and ignored is not None:
            raise UserError("--schema needs no ledger, and takes no other argument: leave the others out")
        ignored = next((name for name in ("runs", "instance", "usd_per_hour") if getattr(self, name)), None)
        if self.published and ignored is not None:
            raise UserError("--published needs no ledger, and takes no other argument but --json: leave the others out")
        if self.compare is not None and self.runs:
            raise UserError("--compare A B takes no other names of runs or cohorts: leave them out")
        unpriced = self.instance is None and self.usd_per_hour is None
        if self.prices is not None and unpriced and self.recommend is None:
            raise UserError(f"--prices {self.prices}: also name an entry of the file with --instance")

    def price(self) -> Price | None:
        """Return the price that replaces the declared prices, if there is one.

        Raises:
            UserError: If there is no such price.
        """
        if self.instance is None and self.usd_per_hour is None:
            return None
        prices = load_price_book(self.prices)
        return resolve_price(self.instance, self.usd_per_hour, prices, today=datetime.date.today())


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
        from ledger_lab.commands.query import show_schema  # queries take longer to load than most reports

        show_schema()
        return 0
    if request.published:
        from ledger_lab.commands.scaling import show_published

        show_published(request.json)
        return 0
    if request.follow is not None:
        _follow(request, request.follow)
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
        from ledger_lab.commands.query import answer_sql

        answer_sql(contents, request.sql, json_file=request.json, csv_file=request.csv)
    elif request.figures is not None:
        from ledger_lab.commands.figures import write_figures

        write_figures(request.figures, contents, price)
    elif request.scaling:
        from ledger_lab.commands.scaling import show_scaling

        declared = [cohort for cohort in ledger.cohorts if not request.runs or cohort.name in request.runs]
        show_scaling(contents, price, request.json, declared)
    elif request.recommend is not None:
        from ledger_lab.commands.recommend import show_recommendation

        show_recommendation(
            ledger,
            contents,
            request.recommend,
            target=request.target,
            deadline_s=request.deadline,
            budget_usd=request.budget,
            book=load_price_book(request.prices),
            price=price,
            json_file=request.json,
        )
    elif request.html is not None:
        _draw(request, request.html, ledger, contents, price)
    else:
        _show(request, ledger, contents, price)
    return 1 if ledger.damage else 0


def _follow(request: ReportRequest, every_s: float) -> NoReturn:
    """Write the page again and again."""
    from ledger_lab.commands.follow_page import follow_page
    from ledger_lab.commands.page_reading import PageReading

    assert request.html is not None
    price = request.price()
    follow_page(
        request.html,
        lambda address: PageReading(
            request.log_root, mode="file", every_s=every_s, address=address, runs=request.runs, price=price
        ),
    )


def newest_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the runs that a report shows if there are too many.

    Args:
        runs: Runs, oldest first.
    """
    return [*runs[-_SHOWN_RUNS:]]


def _compare(
    request: ReportRequest, sides: tuple[str, str], ledger: Ledger, runs: Sequence[Run], price: Price | None
) -> None:
    """Compare two sides, on the terminal or as JSON."""
    from ledger_lab.commands.compare import compare_runs, comparison_json, show_comparison

    sizes = {cohort.name: cohort.size for cohort in ledger.cohorts}
    comparison = compare_runs(*sides, runs, price, declared_sizes=sizes)
    if request.json is None:
        show_comparison(comparison)
    else:
        _write_json(request.json, comparison_json(comparison))


def _draw(request: ReportRequest, file: Path, ledger: Ledger, contents: Contents, price: Price | None) -> None:
    """Write the page."""
    from ledger_lab.reports.page import write_page

    with ReadingProgress(make_console(sys.stderr), "drawing runs", unit=2) as progress:
        write_page(
            file,
            contents.runs,
            contents.summaries,
            contents.cohorts,
            source=str(request.log_root),
            asked=price,
            absent=[] if request.runs else [cohort for cohort in ledger.cohorts if not cohort.run_ids],
            left_out_runs=len(ledger.runs) - len(contents.runs),
            on_progress=progress.show,
        )
    count = len(contents.runs)
    make_console().print(f"wrote {file}: {count} run{'' if count == 1 else 's'}", soft_wrap=True)


def _show(request: ReportRequest, ledger: Ledger, contents: Contents, price: Price | None) -> None:
    """Show the table, or write all figures as JSON."""
    runs, summaries, cohorts = contents.runs, contents.summaries, contents.cohorts
    rows = sum(run.rows for run in ledger.runs)
    explained = bool(request.runs) or rows <= _EXPLAINED_ROWS
    bottlenecks = _bottlenecks(ledger, runs, summaries) if explained else {}
    if request.json is not None:
        found = {run_id: bottleneck.to_json() for run_id, bottleneck in bottlenecks.items()}
        report = {
            "asked_price": None if price is None else price.to_dict(),
            "runs": [{**s.to_json(), "bottleneck": found.get(s.run_id)} for s in summaries],
            "bottlenecks_left_out": not explained,
            "cohorts": [c.to_json() for c in cohorts],
            "declared_cohorts": [
                {"cohort": c.name, "declared_runs": c.size, "missing_runs": c.missing, "runs": list(c.run_ids)}
                for c in ledger.cohorts
            ],
        }
        _write_json(request.json, report)
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


def _write_json(name: str, report: dict[str, Any]) -> None:
    """Write a report to a file; ``-`` means standard output."""
    write_output(name, json.dumps(report, indent=2, allow_nan=False) + "\n")


def _bottlenecks(ledger: Ledger, runs: Sequence[Run], summaries: Sequence[RunSummary]) -> dict[str, Bottleneck]:
    """Find the bottlenecks of runs; advice uses all runs of the ledger."""
    known = {run.run_id: summary for run, summary in zip(runs, summaries, strict=True)}
    everything = [(run, known.get(run.run_id) or summarize_run(run)) for run in ledger.runs]
    return find_bottlenecks(runs, summaries, everything)


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
    tell_damage(ledger)
    if not ledger.runs:
        raise UserError(f"no runs under {log_root}: train first, or name another root with --log_root")
    return ledger


def summarize_selected(
    ledger: Ledger,
    runs: Sequence[Run],
    price: Price | None = None,
    summarize: Callable[[Sequence[Run], Price | None], list[RunSummary]] | None = None,
) -> tuple[list[RunSummary], list[CohortSummary]]:
    """Summarize some runs, and their whole cohorts.

    Args:
        ledger: The ledger.
        runs: The requested runs.
        price: Price that replaces the declared prices.
        summarize: Summarizes runs; by default, :func:`summarize_runs`.

    Returns:
        One summary per requested run; and one per cohort, task and panel, over all runs of the cohort.
    """
    summarize = summarize or summarize_runs
    chosen = {run.run_id for run in runs}
    named = {run.cohort for run in runs} - {None}
    together = [run for run in ledger.runs if run.run_id in chosen or run.cohort in named]
    summaries = summarize(together, price)
    known = {summary.run_id: summary for summary in summaries}
    by_id = {run.run_id: run for run in ledger.runs}
    found = summarize(find_earlier_runs(summaries, partial(_begun_with, by_id)), price)
    earlier = EarlierRuns(known | {summary.run_id: summary for summary in found}, repriced=price is not None)
    return [known[run.run_id] for run in runs], summarize_cohorts(summaries, ledger.cohorts, earlier)


def _begun_with(by_id: Mapping[str, Run], began: Mapping[str, Any]) -> Run | None:
    """Return the run whose checkpoint another run began with: a run of the ledger, or that of a shipped policy."""
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
