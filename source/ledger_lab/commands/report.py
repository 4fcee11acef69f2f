"""``scripts/report.py``: shows the ledger as a table, JSON or a page. Needs neither torch nor Isaac Lab."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ledger_lab.cores import map_on_cores, no_collection
from ledger_lab.costs import Price, load_price_book, resolve_price
from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import Ledger, Run, read_ledger
from ledger_lab.ledger.find import tell_damage, telling_damage
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
from ledger_lab.terminal.console import make_console
from ledger_lab.terminal.flags import Program
from ledger_lab.terminal.progress import ReadingProgress

_BATCH, _PARALLEL_FROM = 32, 256
"""Runs per batch of one process, and smallest number of runs that are summarized on several cores."""

_DRAWN_RUNS = 1000
"""Largest number of runs on a page. More runs take minutes to draw, and a browser long to show."""

_EXPLAINED_ROWS = 200_000
"""Largest number of rows for which bottlenecks are computed if the user names no runs."""


def report_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/report.py``."""
    parser = Program(
        name="report.py",
        description=(
            "Show the results of every run of a ledger: status, held-out success, time to the target, cost, "
            "environment steps per second, peak memory and the share of time that evaluation took. Failed runs are "
            "shown, too. If a journal is damaged, its run is left out, and the exit status is 1. "
            "scripts/verify_ledger.py then shows the damage."
        ),
        terms=("run", "cohort", "target", "held-out", "journal", "ledger", "cell"),
        examples=(
            "report.py --checkpoints",
            "report.py --html page.html",
            "report.py --log_root records/time-to-target-cpu --compare time-to-target-stock time-to-target-tuned",
            'report.py --sql "SELECT cell, avg(success::INT) FROM episodes GROUP BY cell ORDER BY 2"',
        ),
    ).parser()
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="Run id or name of a cohort (default: all runs). The first characters of an id are enough.",
    )
    parser.add_argument(
        "--log_root", type=Path, default=Path("logs"), help="Root folder of the ledger (default: logs)."
    )
    parser.add_argument("--json", metavar="FILE", help="Write all results to a JSON file; - means standard output.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--html",
        metavar="FILE",
        type=Path,
        help="Write an HTML page with tables and plots, which works without a network. The page shows at most "
        f"{_DRAWN_RUNS} runs, the newest ones. To show others, name runs or cohorts.",
    )
    what.add_argument(
        "--compare",
        nargs=2,
        metavar=("A", "B"),
        help="Compare two cohorts or runs. The program prints which side reaches the target sooner, with the ratio "
        "of the two times, and which side is cheaper, with the ratio of the two costs. If both sides have several "
        "runs, the ratios have confidence intervals. If A and B cannot be compared, for example because "
        "their panels differ, the program lists what differs and exits with status 2.",
    )
    what.add_argument(
        "--sql",
        metavar="QUERY",
        help="Print the answer to a query of the ledger, in DuckDB's SQL. --schema lists the tables. --json and --csv "
        "write the answer to a file.",
    )
    what.add_argument("--schema", action="store_true", help="List the tables and columns that --sql can use.")
    parser.add_argument(
        "--csv", metavar="FILE", help="Write the answer to --sql to a CSV file; - means standard output."
    )
    parser.add_argument("--checkpoints", action="store_true", help="Also show the held-out score of every checkpoint.")
    parser.add_argument(
        "--instance",
        help="Entry of the price file to compute all costs with (default: the price that each run recorded). The "
        "report names the recorded and the new price.",
    )
    parser.add_argument(
        "--usd_per_hour",
        type=float,
        help="Price to compute all costs with [USD/h]. With --instance, it is the price of that machine, and replaces "
        "the price in the price file. Without --instance, it is the price of one GPU, or of the whole machine if the "
        "training ran on its CPU.",
    )
    parser.add_argument(
        "--prices",
        type=Path,
        metavar="FILE",
        help="Your own price file, in addition to config/prices.toml. If both files have an entry of the same name, "
        "your entry is used. scripts/import_prices.py can write a price file.",
    )
    return parser


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
    args = report_parser().parse_args(argv)
    _require_consistent(args)
    # Comparisons, queries and pages take longer to load than most reports take.
    if args.schema:
        from ledger_lab.commands.query import show_schema

        show_schema()
        return 0
    ledger = whole_ledger(args.log_root)
    runs = selected_runs(ledger.runs, args.runs, args.log_root)
    price = _asked_price(args)
    if args.html is not None and (older := len(runs) - _DRAWN_RUNS) > 0:
        make_console(sys.stderr).print(
            f"--html: a page shows {_DRAWN_RUNS} runs, so the {older} oldest of {len(runs)} are left out; to draw "
            "others, name runs or cohorts: report.py COHORT --html FILE",
            soft_wrap=True,
        )
        runs = runs[older:]
    if args.compare is not None:
        from ledger_lab.commands.compare import compare_runs, comparison_json, show_comparison

        sizes = {cohort.name: cohort.size for cohort in ledger.cohorts}
        comparison = compare_runs(args.compare[0], args.compare[1], runs, price, declared_sizes=sizes)
        if args.json is None:
            show_comparison(comparison)
        else:
            _write_json(args.json, comparison_json(comparison))
        return _status(ledger)
    summaries, cohorts = summarize_selected(ledger, runs, price)
    if args.sql is not None:
        from ledger_lab.commands.query import answer_sql
        from ledger_lab.reports.ledger_tables import Contents

        answer_sql(Contents(runs, summaries, cohorts), args.sql, json_file=args.json, csv_file=args.csv)
        return _status(ledger)
    if args.html is not None:
        from ledger_lab.reports.page import write_page

        absent = [] if args.runs else [cohort for cohort in ledger.cohorts if not cohort.run_ids]
        left_out = len(ledger.runs) - len(runs)
        with ReadingProgress(make_console(sys.stderr), "drawing runs", unit=2) as progress:
            write_page(
                args.html, runs, summaries, cohorts, source=str(args.log_root), asked=price, absent=absent,
                left_out_runs=left_out, on_progress=progress.show,
            )  # fmt: skip
        count = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
        make_console().print(f"wrote {args.html}: {count}", soft_wrap=True)
        return _status(ledger)
    explained = bool(args.runs) or _rows(runs) <= _EXPLAINED_ROWS
    bottlenecks = _bottlenecks(ledger, runs, summaries) if explained else {}
    if args.json is None:
        console = make_console()
        if price is not None:
            console.print(render_repricing(price, summaries))
        console.print(render_report(summaries, cohorts, console.width, bottlenecks))
        if not args.runs:
            for line in absent_cohort_lines(ledger.cohorts):
                console.print(line)
        if not explained:
            console.print(f"bottlenecks and advice are left out over {_rows(runs)} rows: name the runs to explain")
        if args.checkpoints:
            for summary in summaries:
                console.print(render_checkpoints(summary), "")
        return _status(ledger)
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
    _write_json(args.json, report)
    return _status(ledger)


def _status(ledger: Ledger) -> int:
    """Return the exit status of a report."""
    return 1 if ledger.damage else 0


def _require_consistent(args: argparse.Namespace) -> None:
    """Refuse flags that would be ignored.

    Raises:
        UserError: If an argument has no effect together with another argument.
    """
    if args.csv is not None and args.sql is None:
        raise UserError("--csv needs --sql; to write whole tables, use scripts/export.py --format csv")
    if args.html is not None and args.json is not None:
        raise UserError("--html and --json cannot be used together: call report.py twice")
    other = next((f"--{name}" for name in ("html", "compare", "sql", "schema") if getattr(args, name)), None)
    if args.checkpoints and other is not None:
        raise UserError(f"--checkpoints cannot be used with {other}: leave one of them out")
    if args.compare is not None and args.runs:
        raise UserError("--compare A B takes no other names of runs or cohorts: leave them out")


def _write_json(file: str, report: dict[str, Any]) -> None:
    """Write a report to a file; ``-`` means standard output."""
    text = json.dumps(report, indent=2, allow_nan=False) + "\n"
    if file == "-":
        print(text, end="")
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from error


def _rows(runs: Sequence[Run]) -> int:
    """Return the number of rows of some runs."""
    return sum(journal.count for run in runs for attempt in run.attempts for journal in attempt.journals)


def _bottlenecks(ledger: Ledger, runs: Sequence[Run], summaries: Sequence[RunSummary]) -> dict[str, Bottleneck]:
    """Find the bottlenecks of runs; advice uses all runs of the ledger."""
    known = {run.declared.run_id: summary for run, summary in zip(runs, summaries, strict=True)}
    everything = [(run, known.get(run.declared.run_id) or summarize_run(run)) for run in ledger.runs]
    return find_bottlenecks(runs, summaries, everything)


def _asked_price(args: argparse.Namespace) -> Price | None:
    """Return the requested price, which replaces the declared prices, if there is one."""
    if args.instance is None and args.usd_per_hour is None:
        if args.prices is not None:
            raise UserError(f"--prices {args.prices}: also name an entry of the file with --instance")
        return None
    return resolve_price(args.instance, args.usd_per_hour, load_price_book(args.prices), today=datetime.date.today())


def whole_ledger(log_root: Path) -> Ledger:
    """Read a ledger that has at least one run.

    Args:
        log_root: Its root.

    Raises:
        UserError: If there is no run, or every run is damaged.
    """
    if not log_root.is_dir():
        raise UserError(f"no ledger at {log_root}: train first, or name the root of a ledger with --log_root")
    with telling_damage(), ReadingProgress(make_console(sys.stderr), "reading journals, MB") as progress:
        ledger = read_ledger(log_root, on_progress=progress.show, tolerate_damage=True)
        if ledger.damage and not ledger.runs:
            raise ledger.damage[0]
    tell_damage(ledger)
    if not ledger.runs:
        raise UserError(f"no runs under {log_root}: train first, or name another root with --log_root")
    return ledger


def summarize_selected(
    ledger: Ledger, runs: Sequence[Run], price: Price | None = None
) -> tuple[list[RunSummary], list[CohortSummary]]:
    """Summarize some runs, and their whole cohorts.

    Args:
        ledger: The ledger.
        runs: The requested runs.
        price: Price that replaces the declared prices.

    Returns:
        One summary per requested run; and one per cohort, task and panel, over all runs of the cohort.
    """
    chosen = {run.declared.run_id for run in runs}
    named = {run.declared.cohort for run in runs} - {None}
    together = [run for run in ledger.runs if run.declared.run_id in chosen or run.declared.cohort in named]
    summaries = summarize_runs(together, price)
    known = {summary.run_id: summary for summary in summaries}
    return [known[run.declared.run_id] for run in runs], summarize_cohorts(summaries, ledger.cohorts)


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
    cohorts = {run.declared.cohort for run in runs}
    for prefix in prefixes:
        if prefix not in cohorts and not any(run.declared.run_id.startswith(prefix) for run in runs):
            known = [run.declared.run_id for run in runs] + [cohort for cohort in cohorts if cohort is not None]
            raise UserError(f"no run or cohort {prefix!r} under {log_root}: {nearest(prefix, known)}")
    if not prefixes:
        return list(runs)
    begun = tuple(prefixes)
    return [run for run in runs if run.declared.run_id.startswith(begun) or run.declared.cohort in begun]
