"""The ledger's tables as files that other tools read: Parquet and CSV."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ledger_lab.errors import UserError
from ledger_lab.reports.row_builders import Contents
from ledger_lab.reports.sql import connect_filled
from ledger_lab.reports.sql_tables import TABLES

Format = Literal["parquet", "csv"]

_OPTIONS: dict[Format, str] = {"parquet": "FORMAT parquet, COMPRESSION zstd", "csv": "FORMAT csv, HEADER"}


def export_tables(contents: Contents, folder: Path, formats: Sequence[Format]) -> list[Path]:
    """Write every table, one file each. A file appears when it is whole, in place of an older one.

    Args:
        contents: The ledger.
        folder: Where to; created where it is missing.
        formats: In which formats.

    Returns:
        The files.

    Raises:
        UserError: If the folder can't be written, or DuckDB is not installed.
    """
    paths = []
    with connect_filled(contents) as connection:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for kind in formats:
                for name in TABLES:
                    path = folder / f"{name}.{kind}"
                    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
                    try:
                        # A parameter can't stand for the file's name here, so quotes in it are doubled.
                        quoted = str(unfinished).replace("'", "''")
                        unfinished.touch()  # says what is wrong with the folder in the system's words
                        connection.execute(f"COPY \"{name}\" TO '{quoted}' ({_OPTIONS[kind]})")
                        unfinished.replace(path)
                    finally:
                        unfinished.unlink(missing_ok=True)
                    paths.append(path)
        except OSError as error:
            raise UserError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    return paths
