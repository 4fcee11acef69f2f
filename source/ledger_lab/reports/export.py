"""The ledger's tables as files that other tools read: Parquet and CSV.

Names in a ledger may come from others. In CSV, a text that a spreadsheet would run as a formula gets an apostrophe in
front; Parquet and JSON hold the text as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ledger_lab.errors import UserError, first_line
from ledger_lab.files import whole_file
from ledger_lab.reports.cohort_summary import Contents
from ledger_lab.reports.ledger_tables import TABLES, Table
from ledger_lab.reports.sql import connect_filled, load_duckdb

Format = Literal["parquet", "csv"]

_FORMULA_BEGINS = r"^[=+@\t\r\n＋－＝＠-]"
_NUMBER = r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"
"""The beginning of a text that spreadsheets may run as a formula, and numbers, which may begin like one. For RE2."""

_OPTIONS: dict[Format, str] = {"parquet": "FORMAT parquet, COMPRESSION zstd", "csv": "FORMAT csv, HEADER"}


def spreadsheet_text(text: str) -> str:
    """Return a text as a cell of a CSV file: an apostrophe comes before what a spreadsheet would run as a formula."""
    formula = re.match(_FORMULA_BEGINS, text) and not re.fullmatch(_NUMBER, text)
    return f"'{text}" if formula else text


def export_tables(contents: Contents, folder: Path, formats: Sequence[Format]) -> list[Path]:
    """Write every table into a file of its own. A file appears under its name only when it is complete.

    Args:
        contents: The ledger.
        folder: Folder to write to; created if missing.
        formats: Formats to write.

    Returns:
        The files.

    Raises:
        UserError: If the folder can't be written, or DuckDB is not installed.
        UnicodeEncodeError: If the path is not UTF-8.
    """
    paths = []
    duckdb = load_duckdb()
    os.fspath(folder.absolute()).encode()  # refuses a name that DuckDB could not be told
    with connect_filled(contents) as connection:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for kind in formats:
                for name in TABLES:
                    path = folder / f"{name}.{kind}"
                    with whole_file(path, shared=True) as unfinished:
                        # COPY takes no parameter as its file name, so quotes in the name are doubled.
                        # As an absolute path: DuckDB takes a name that begins with ~ for a home.
                        quoted = str(unfinished.absolute()).replace("'", "''")
                        unfinished.touch()  # raises the system's own error, which DuckDB would reword
                        source = _spreadsheet_query(TABLES[name]) if kind == "csv" else f'FROM "{name}"'
                        try:
                            connection.execute(f"COPY ({source}) TO '{quoted}' ({_OPTIONS[kind]})")
                        except duckdb.IOException as error:
                            raise RuntimeError(first_line(error)) from error  # the disk is then asked what is wrong
                    paths.append(path)
        except OSError as error:
            raise UserError(f"cannot write {error.filename or folder}: {error.strerror}") from error
        except RuntimeError as error:
            raise UserError(f"cannot write the tables to {folder}: {error}") from error
    return paths


def _spreadsheet_query(table: Table) -> str:
    """Return the query of a table with :func:`spreadsheet_text` over its texts."""
    columns = [
        f"""CASE WHEN regexp_matches("{each.name}", '{_FORMULA_BEGINS}') AND NOT regexp_full_match("{each.name}", """
        f"""'{_NUMBER}') THEN '\'\'' || "{each.name}" ELSE "{each.name}" END AS "{each.name}\""""
        if each.type == "VARCHAR"
        else f'"{each.name}"'
        for each in table.columns
    ]
    return f'SELECT {", ".join(columns)} FROM "{table.name}"'
