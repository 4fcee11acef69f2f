"""``report.py --html FILE --follow SECONDS``: rewrites one file from what is new in the ledger."""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import NoReturn
from urllib.parse import quote

from rich.console import Console
from rich.status import Status
from rich.text import Text

from ledger_lab.cli.live_page import Address
from ledger_lab.cli.page_reading import UNCHANGED_S, PageReading
from ledger_lab.errors import UserError, first_line
from ledger_lab.ledger import Run
from ledger_lab.ledger.endings import Terminated
from ledger_lab.names import visible
from ledger_lab.reports.page import save_page
from ledger_lab.reports.page.content import PageState
from ledger_lab.reports.page.live import LivePart
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.progress import ReadingProgress

_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors that end when somebody frees some space."""


def follow_page(file: Path, reading: Callable[[Address], PageReading]) -> NoReturn:
    """Rewrite the page whenever something on it changes, until a signal asks to end. The last page says that it ended.

    Args:
        file: File of the page.
        reading: Makes the reading of the ledger, from the function that returns addresses of files.

    Raises:
        KeyboardInterrupt: At Ctrl-C.
        Terminated: At SIGTERM.
        UserError: If there is no ledger, or the page can't be written for another reason than a full disk.
    """
    signal.signal(signal.SIGTERM, _terminate)
    writer = _Writer(file, reading(_below(file.absolute().parent)), make_console(), make_console(sys.stderr))
    with ReadingProgress(writer.errors, "reading journals, MB") as progress:
        writer.write(writer.reading.read(progress.show))
    try:
        writer.go_on()
    finally:
        writer.end()


class _Writer:
    """Writes the page of one ledger."""

    def __init__(self, file: Path, reading: PageReading, console: Console, errors: Console) -> None:
        """Write nothing yet."""
        self.reading, self.console, self.errors = reading, console, errors
        self._file = file
        self._written: PageState | None = None
        self._written_s = time.monotonic()
        self._trouble = ""

    def go_on(self) -> NoReturn:
        """Read and write until an exception ends it."""
        shown = self.console.status("") if self.console.is_terminal else nullcontext()
        with shown as status:
            while True:
                self._wait(status)
                try:
                    state = self.reading.read()
                except (UserError, OSError) as error:  # a journal was moved, or the file server does not answer
                    self._tell(f"{first_line(error)}; the page stays as it is")
                    continue
                if self._is_due(state):
                    self.write(state)

    def write(self, state: PageState) -> None:
        """Write the page.

        Raises:
            UserError: If it can't be written for another reason than a full disk.
        """
        try:
            save_page(self._file, state.document)
        except OSError as error:
            if error.errno not in _FULL:
                raise UserError(f"cannot write {self._file}: {error.strerror}") from error
            self._tell(f"cannot write {self._file}: {error.strerror}: free some space; the page stays as it is")
            return
        if self._written is None:
            self.console.print(f"wrote {self._file}; it follows the ledger until Ctrl-C", soft_wrap=True)
            sys.stdout.flush()
        self._written, self._written_s, self._trouble = state, time.monotonic(), ""

    def end(self) -> None:
        """Write that nothing follows."""
        if self._written is not None and self._file.parent.is_dir():
            live = dataclasses.replace(self._written.live, ended=True)
            self.write(dataclasses.replace(self._written, live=live))

    def _is_due(self, state: PageState) -> bool:
        """Tell whether the page would show something new, or was not written for long."""
        before = self._written
        if before is None or time.monotonic() - self._written_s >= UNCHANGED_S:
            return True
        return before.content is not state.content or _without_time(before.live) != _without_time(state.live)

    def _wait(self, status: Status | None) -> None:
        """Wait until the next reading, and tell how the page is."""
        until_s = time.monotonic() + self.reading.pause_s
        while (left_s := until_s - time.monotonic()) > 0:
            if status is not None and self._written is not None:
                status.update(Text(visible(f"{_in_words(self._written)} · next look in {left_s:.0f} s")))
            time.sleep(min(left_s, 1.0) if status is not None else left_s)

    def _tell(self, trouble: str) -> None:
        """Print what is wrong, once as long as it stays the same."""
        if trouble != self._trouble:
            self.errors.print(trouble, soft_wrap=True)
        self._trouble = trouble


def _in_words(state: PageState) -> str:
    """Describe a page that was written."""
    runs = len(state.content.model.runs)
    states = [f"{count} {name}" for name, count in state.live.counts]
    written = time.strftime("%H:%M:%S", time.localtime(state.live.written_at))
    return ", ".join([f"written {written}", f"{runs} run{'' if runs == 1 else 's'}", *states])


def _without_time(live: LivePart) -> LivePart:
    """Return the live part without what changes with each reading."""
    return dataclasses.replace(live, written_at=0.0, due_s=0.0)


def _below(folder: Path) -> Address:
    """Return addresses that are relative to the folder of a page, so that both can be moved together."""

    def address(run: Run, kind: str, path: str) -> str:
        # A name may be bytes that are not text, or look like the scheme of an address: both are percent-encoded.
        return quote(os.fsencode(os.path.relpath(run.directory.absolute() / path, folder)))

    return address


def _terminate(signum: int, _: FrameType | None) -> NoReturn:
    """Turn SIGTERM into an exception."""
    raise Terminated(signal.Signals(signum).name)
