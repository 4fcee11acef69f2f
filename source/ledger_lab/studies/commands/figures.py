"""``scripts/report.py scaling --figures``: the figures of scaling studies as files."""

from __future__ import annotations

from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger.costs import Price
from ledger_lab.reports.cohort_summary import Contents
from ledger_lab.reports.figures import save_drawings
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.studies.figures.scaling import draw_ledger


def write_figures(folder: Path, contents: Contents, price: Price | None) -> None:
    """Write all figures as SVG and PNG files, and list them.

    Args:
        folder: Folder for the files.
        contents: The runs.
        price: Price that replaces the declared prices.

    Raises:
        UserError: If there is nothing to draw, a file can't be written, or Matplotlib is not installed.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--figures {folder}: it is no folder: name a folder for the files")
    groups = draw_ledger(contents.runs, contents.summaries, price)
    if not groups:
        raise UserError(
            "no figure: none of these runs trained the same task for the same target with several numbers of processes "
            "or environments; to start such trainings, use scripts/study.py"
        )
    console = make_console()
    for group in groups:
        lines = [group.title]
        for drawing in group.drawings:
            files = save_drawings(folder, [drawing])
            lines.append(f"  wrote {', '.join(map(str, files))}")
        console.print(*lines, *(f"  {note}" for note in group.notes), sep="\n", soft_wrap=True)
