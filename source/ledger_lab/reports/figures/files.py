"""Writes figures as files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.files import make_folder, whole_file
from ledger_lab.reports.figures.drawing import Drawing, Format, require_matplotlib

FORMATS: tuple[Format, ...] = ("svg", "png")


def save_drawings(folder: Path, drawings: Iterable[Drawing], formats: Iterable[Format] = FORMATS) -> list[Path]:
    """Write each figure as one file per format. Files of the same names are replaced.

    Args:
        folder: Folder for the files; it is created if necessary.
        drawings: The figures; each name once.
        formats: The formats.

    Returns:
        The files.

    Raises:
        UserError: If a file can't be written, or Matplotlib is not installed.
    """
    require_matplotlib()
    make_folder(folder)
    written = []
    for drawing in drawings:
        for kind in formats:
            path = folder / f"{drawing.name}.{kind}"
            picture = drawing.render(kind)
            try:
                with whole_file(path, shared=True) as unfinished:
                    unfinished.write_bytes(picture)
            except OSError as error:
                raise UserError(f"cannot write {path}: {error.strerror}") from error
            written.append(path)
    return written
