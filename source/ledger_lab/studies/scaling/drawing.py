"""A figure before it is painted, and its picture as SVG or PNG.

Matplotlib paints without a display and without the state of ``pyplot``. The same figure and version of Matplotlib give
the same bytes. Texts from a ledger are never read as formulas, and Matplotlib's XML writer escapes them.
"""

from __future__ import annotations

import importlib.util
import io
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ledger_lab.errors import UserError
from ledger_lab.files import make_folder
from ledger_lab.reports.terminal.console import write_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Format = Literal["svg", "png"]
FORMATS: tuple[Format, ...] = ("svg", "png")

INK, SOFT, GRID, PAPER = "#15181d", "#59616c", "#e6e9ee", "#ffffff"

_STYLE = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9.0,
    "text.color": INK,
    "text.parse_math": False,  # a name may contain a dollar sign
    "text.usetex": False,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": "#c3c8d0",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 6.0,
    "hatch.linewidth": 0.6,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "savefig.dpi": 160,
    "svg.fonttype": "none",  # texts stay texts
    "svg.hashsalt": "ledger_lab",  # identifiers in the file do not change from call to call
    "path.simplify": False,
}


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure that is painted when its picture is asked for."""

    name: str
    """Name of its files, without the ending; letters, digits and hyphens."""
    title: str
    description: str
    """What it shows, for readers who can't see it."""
    paint: Callable[[Figure], None]
    """Paints it on an empty figure."""
    notes: tuple[str, ...] = ()
    """Sentences about what is drawn, and why something is not."""
    size_in: tuple[float, float] = (9.0, 4.4)
    """Width and height [inch]."""

    def render(self, kind: Format) -> bytes:
        """Return the picture.

        Args:
            kind: The format.

        Raises:
            UserError: If Matplotlib is not installed.
        """
        require_matplotlib()
        written = io.BytesIO()
        with _style():
            from matplotlib.figure import Figure

            figure = Figure(figsize=self.size_in, layout="constrained")
            self.paint(figure)
            unstamped = {"Date": None, "Creator": None, "Title": self.title} if kind == "svg" else {"Software": None}
            figure.savefig(written, format=kind, metadata=unstamped)
        return written.getvalue()


def can_draw() -> bool:
    """Tell whether Matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def require_matplotlib() -> None:
    """Refuse to draw without Matplotlib.

    Raises:
        UserError: If it is not installed.
    """
    if not can_draw():
        raise UserError("figures need the package matplotlib: pip install 'ledger_lab[figures]'")


@contextmanager
def _style() -> Iterator[None]:
    """Let everything that is painted meanwhile have the look of these figures."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")  # the SVG file has the text anyway
        matplotlib.rcdefaults()  # a user's own settings would change the files
        matplotlib.rcParams.update(_STYLE)
        yield


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
            write_output(str(path), drawing.render(kind))
            written.append(path)
    return written
