"""``scripts/export.py``: writes the ledger for other tools. Imports neither torch nor Isaac Lab."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Literal

from ledger_lab.ledger.cores import no_collection
from ledger_lab.ledger.find import tell_damage
from ledger_lab.reports.bundle import SCHEMA_VERSION, write_bundles
from ledger_lab.reports.export import Format, export_tables
from ledger_lab.reports.selection import runs_flag, select_in, whole_ledger
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.request import Program, Request, flag, log_root_flag

_TABLES: tuple[Format, ...] = ("parquet", "csv")


@dataclass(frozen=True, kw_only=True)
class ExportRequest(Request):
    """What a user asks of ``scripts/export.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="export.py",
        description=(
            "Export runs of the ledger for other tools. The formats parquet and csv write one file per table of the "
            "ledger. To see the tables and their columns, use scripts/report.py query. The format isaaclab writes "
            f"RUN/training.json for each run, in the format of Isaac Lab's benchmarks (schema {SCHEMA_VERSION})."
        ),
        examples=("export.py --to out --format parquet csv",),
    )

    runs: tuple[str, ...] = runs_flag()
    to: Path = flag(MISSING, "Folder to write to. The program creates it if it does not exist.", metavar="DIR")
    format: tuple[Literal["parquet", "csv", "isaaclab"], ...] = flag(
        ("parquet",),
        "One or more formats to write, separated by spaces (default: parquet).",
    )
    log_root: Path = log_root_flag()


@no_collection()
def export_ledger(argv: Sequence[str]) -> int:
    """Write the ledger's tables, and its runs as benchmark bundles.

    Args:
        argv: Command line without the program's name.

    Returns:
        0, or 1 if damaged runs were left out.

    Raises:
        UserError: If there is no such ledger or run, or the folder can't be written.
    """
    request = ExportRequest.parse(argv)
    ledger = whole_ledger(request.log_root)
    found = select_in(ledger, request.runs)
    tell_damage(found.ledger.damage[len(ledger.damage) :])
    runs, summaries = found.contents.runs, found.contents.summaries
    written: list[Path] = []
    console = make_console()
    if tables := [kind for kind in _TABLES if kind in request.format]:
        written += export_tables(found.contents, request.to, tables)
    if "isaaclab" in request.format:
        bundles, left_out = write_bundles(runs, summaries, request.to)
        written += bundles
        for run_id, reason in left_out.items():
            console.print(f"no bundle of run {run_id}: {reason}", soft_wrap=True)
    console.print(f"{len(runs)} runs, {len(written)} files under {request.to}", soft_wrap=True)
    return found.status
