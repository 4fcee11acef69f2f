"""Live progress: a redrawn display on a terminal that can do so, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ledger_lab.ledger import PanelResult
from ledger_lab.units import duration, percent

_LINE_EVERY_S = 10.0
_BAR_WIDTH = 60


class Progress:
    """Progress of one task, as a bar and a line of figures that also suits a log file."""

    def __init__(
        self,
        console: Console,
        title: str,
        total: int | None,
        begun: int = 0,
        elapsed_s: Callable[[], float] | None = None,
    ) -> None:
        """Begin.

        Args:
            console: Where to draw.
            title: What is being done.
            total: Number of steps; ``None`` if unknown.
            begun: Number of steps that were done before.
            elapsed_s: Clock of a run that may end before all steps are done [s]. By default, the clock starts here.
        """
        self._console, self._title, self._total, self._begun = console, title, total, begun
        self._redraws = console.is_terminal and not console.is_dumb_terminal
        self._elapsed_s = elapsed_s
        self._began_s = self._line_s = time.monotonic()
        self._done, self._figures = begun, ""
        self._live = Live(
            get_renderable=self._draw,
            console=console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        """Start drawing."""
        if self._redraws:
            self._live.start()
        else:
            self._console.print(f"{self._title} …", markup=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing, and print one last line."""
        if self._redraws:
            self._live.stop()
        self._console.print(self._line(last=True), markup=False, soft_wrap=True)

    def advance(self, done: int, figures: str = "") -> None:
        """Update the display.

        Args:
            done: Number of steps done.
            figures: Other figures to show.
        """
        self._done, self._figures = done, figures
        now_s = time.monotonic()
        if not self._redraws and done != self._total and now_s - self._line_s >= _LINE_EVERY_S:
            self._line_s = now_s
            self._console.print(self._line(), markup=False, soft_wrap=True)

    def _line(self, *, last: bool = False) -> str:
        """Return the progress in one line."""
        passed_s = time.monotonic() - self._began_s
        count = f"{self._done}" if self._total is None else f"{self._done}/{self._total}"
        shown_s = passed_s if self._elapsed_s is None else self._elapsed_s()
        parts = [f"{self._title} {count}", self._figures, duration(shown_s)]
        if not last and self._total is not None and self._begun < self._done < self._total:
            left_s = passed_s * (self._total - self._done) / (self._done - self._begun)
            parts.append(f"{'' if self._elapsed_s is None else 'at most '}{duration(left_s)} left")
        return " · ".join(part for part in parts if part)

    def _draw(self) -> Group:
        """Return the display: a bar of the work, and the figures."""
        bar = Table.grid()  # a bar alone does not end its line
        bar.add_row(ProgressBar(total=self._total, completed=self._done, width=_BAR_WIDTH, pulse=self._total is None))
        return Group(bar, Text(self._line()))


class ReadingProgress:
    """Progress of reading a ledger. It shows nothing if reading is fast."""

    def __init__(self, console: Console, title: str, unit: int = 1_000_000) -> None:
        """Start without showing anything.

        Args:
            console: Where to draw.
            title: Description of the work; by default, it is counted in megabytes.
            unit: Amount of work that counts as one.
        """
        self._console, self._title, self._unit = console, title, unit
        self._began_s = time.monotonic()
        self._progress: Progress | None = None

    def __enter__(self) -> Self:
        """Return the progress."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing."""
        if self._progress is not None:
            self._progress.__exit__(kind, error, trace)

    def show(self, done: int, total: int) -> None:
        """Update the display, after the first two seconds.

        Args:
            done: Amount done, usually bytes read.
            total: Total amount.
        """
        if self._progress is None and time.monotonic() - self._began_s > 2.0:
            self._progress = Progress(self._console, self._title, total // self._unit).__enter__()
        if self._progress is not None:
            self._progress.advance(done // self._unit)


def judged(result: PanelResult) -> str:
    """Return a held-out score in a few words."""
    if result.invalid is not None:
        return f"{result.purpose} invalid ({result.invalid})"
    panel = f"{result.purpose}{' extension' if result.extension else ''}"
    score = f"{panel} {percent(result.outcomes.successes / result.outcomes.episodes)}"
    if result.purpose == "check":
        return score
    return f"{score} ({'passed' if result.proves else 'not enough'})"
