from __future__ import annotations

import fcntl
import io
import os
import struct
import termios

import pytest

from ledger_lab.reports.terminal import progress
from ledger_lab.reports.terminal.console import PlainConsole, Terminal, make_console


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Return both ends of a terminal of 280 columns and 50 lines."""
    monkeypatch.delenv("COLUMNS", raising=False)
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 280, 0, 0))
    return ours, theirs


def test_a_console_is_as_wide_as_its_terminal_also_if_standard_streams_lead_elsewhere(
    wide: tuple[int, int],
) -> None:
    ours, theirs = wide
    with os.fdopen(theirs, "w") as file:
        assert make_console(file).size == (280, 50)
    os.close(ours)


def test_a_terminal_that_cannot_redraw_shows_lines_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(progress, "_LINE_EVERY_S", 0.0)
    file = io.StringIO()
    monkeypatch.setattr(file, "isatty", lambda: True, raising=False)
    with progress.Progress(PlainConsole(file, 80), "training, iteration", 9) as shown:
        shown.advance(4, "return 0.94")
        first, second = file.getvalue().splitlines()
        shown.advance(9, "return 0.98")
    assert (first, second) == ("training, iteration …", "training, iteration 4/9 · return 0.94 · 0:00 · 0:00 left")
    assert file.getvalue().splitlines()[2:] == ["training, iteration 9/9 · return 0.98 · 0:00"], "the last line once"


def test_the_terminal_of_a_worker_keeps_its_width(wide: tuple[int, int], capfd: pytest.CaptureFixture[str]) -> None:
    ours, theirs = wide
    with capfd.disabled():
        saved = [os.dup(descriptor) for descriptor in range(3)]
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            os.dup2(nothing, 0)  # as a worker has it
            os.dup2(theirs, 1)
            os.dup2(theirs, 2)
            terminal = Terminal(quiet_libraries=True)
            width = terminal.console.width
            terminal.restore()
        finally:
            for descriptor, before in enumerate(saved):
                os.dup2(before, descriptor)
                os.close(before)
    for descriptor in (nothing, ours, theirs):
        os.close(descriptor)
    assert width == 280
