"""``scripts/export.py``: writes the ledger for other tools. Imports neither torch nor Isaac Lab."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ledger_lab.commands.report import selected_runs, summarize_selected, whole_ledger
from ledger_lab.cores import no_collection
from ledger_lab.reports.bundle import SCHEMA_VERSION, write_bundles
from ledger_lab.reports.export import Format, export_tables
from ledger_lab.reports.ledger_tables import Contents
from ledger_lab.terminal.console import make_console
from ledger_lab.terminal.flags import HelpFormatter, examples

_TABLES: tuple[Format, ...] = ("parquet", "csv")


@no_collection()
def export_ledger(argv: Sequence[str]) -> int:
    """Write the ledger's tables, and its runs as benchmark bundles.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If there is no such ledger or run, a journal is damaged, or the folder can't be written.
    """
    parser = argparse.ArgumentParser(
        prog="export.py",
        description=(
            "Write the ledger for other tools: its tables as Parquet or CSV files, or each run as a training bundle of "
            f"Isaac Lab's benchmark (schema {SCHEMA_VERSION}). report.py --schema describes the tables."
        ),
        epilog=examples("export.py --to out --format parquet csv"),
        formatter_class=HelpFormatter,
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", help="Run ids or cohorts (default: all runs).")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR", help="Folder to write to; created if missing.")
    parser.add_argument(
        "--format",
        nargs="+",
        choices=(*_TABLES, "isaaclab"),
        default=["parquet"],
        help="One or more formats. parquet, csv: one file per table; isaaclab: RUN/training.json (default: parquet).",
    )
    parser.add_argument("--log_root", type=Path, default=Path("logs"), help="Root of the ledger (default: logs).")
    args = parser.parse_args(argv)
    ledger = whole_ledger(args.log_root)
    runs = selected_runs(ledger.runs, args.runs, args.log_root)
    summaries, cohorts = summarize_selected(ledger, runs)
    written: list[Path] = []
    console = make_console()
    if tables := [kind for kind in _TABLES if kind in args.format]:
        written += export_tables(Contents(runs, summaries, cohorts), args.to, tables)
    if "isaaclab" in args.format:
        bundles, left_out = write_bundles(runs, summaries, args.to)
        written += bundles
        for run_id, reason in left_out.items():
            console.print(f"no bundle of run {run_id}: {reason}", soft_wrap=True)
    console.print(f"{len(runs)} runs, {len(written)} files under {args.to}", soft_wrap=True)
    return 0
