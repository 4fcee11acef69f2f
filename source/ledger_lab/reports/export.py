"""The ledger's tables as files that other tools read: Parquet and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.reports.ledger_tables import TABLES, Contents
from ledger_lab.reports.sql import connect_filled

Format = Literal["parquet", "csv"]

_OPTIONS: dict[Format, str] = {"parquet": "FORMAT parquet, COMPRESSION zstd", "csv": "FORMAT csv, HEADER"}


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
    """
    paths = []
    with connect_filled(contents) as connection:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for kind in formats:
                for name in TABLES:
                    path = folder / f"{name}.{kind}"
                    with whole_file(path, shared=True) as unfinished:
                        # COPY takes no parameter as its file name, so quotes in the name are doubled.
                        quoted = str(unfinished).replace("'", "''")
                        unfinished.touch()  # raises the system's own error, which DuckDB would reword
                        connection.execute(f"COPY \"{name}\" TO '{quoted}' ({_OPTIONS[kind]})")
                    paths.append(path)
        except OSError as error:
            raise UserError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    return paths
