"""How the other processes of an attempt end, from the journals of their supervisors."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger import AttemptEnded, Status, SupervisionStarted, read_journal
from ledger_lab.ledger.liveness import file_system_time, is_alive, modified_s
from ledger_lab.ledger.runs import silence_limit, telemetry_path

_AGREED = (Status.COMPLETED, Status.TARGET_REACHED, Status.STOPPED, Status.INVALID, Status.LIMIT_REACHED)
"""Statuses that all processes reach together."""
_LOOK_S = 0.2
"""Time between two looks while an end is waited for [s]."""
_SILENCE_EVERY_S = 10.0
"""Time between two looks for machines that fell silent [s]. Two looks must agree, as all may have been suspended."""
_GONE = "gone, with its supervisor, and without a word"


@dataclass(frozen=True)
class PeerEnd:
    """An end of another process that the processes did not agree on."""

    at: datetime
    status: Status
    in_words: str
    """The process and the reason of its end, in one line."""
    refused: bool
    """Whether an error that the user can fix ended it."""


class Peers:
    """The other processes of an attempt. Their journals must be in the same directory, on a shared file system.

    Without a shared file system, a process learns only from a failed collective that another one has ended.
    """

    def __init__(self, journal: Path, attempt: int) -> None:
        """Begin to watch.

        Args:
            journal: Journal of the own supervisor.
            attempt: Number of the attempt.
        """
        self.first: PeerEnd | None = None
        """The first end that is known."""
        self._own, self._pattern = journal, f"journal-{attempt}-supervisor*.jsonl"
        self._sizes: dict[Path, int] = {}
        self._ends: dict[Path, PeerEnd | None] = {}
        """By journal; ``None`` for an agreed end."""
        self._starts: dict[Path, tuple[SupervisionStarted, datetime]] = {}
        self._silent: set[Path] = set()
        self._next_silence_s = time.monotonic() + _SILENCE_EVERY_S

    def look(self, patience_s: float = 0.0) -> None:
        """Look whether another process has ended.

        Args:
            patience_s: How long to wait for an end [s].
        """
        until_s = time.monotonic() + patience_s
        while self.first is None:
            self._read_journals()
            self._find_vanished()
            known = [end for end in self._ends.values() if end is not None]
            self.first = min(known, key=lambda end: end.at, default=None)
            if time.monotonic() >= until_s:
                return
            time.sleep(_LOOK_S)

    def wait_for_all(self, patience_s: float) -> None:
        """Wait until all other processes have ended.

        Args:
            patience_s: How long to wait at most [s].
        """
        until_s = time.monotonic() + patience_s
        while self._read_journals() and time.monotonic() < until_s:
            self._find_vanished()
            time.sleep(_LOOK_S)

    def settle(self, row: AttemptEnded) -> AttemptEnded:
        """Return the end to write: the given one, or one that names the end of another process as its cause."""
        self.look()
        if self.first is None or row.status in _AGREED:
            return row
        return replace(row, status=self.first.status, reason=self.first.in_words)

    def _read_journals(self) -> list[Path]:
        """Read what is new in the other journals, and return those without an end."""
        others = [path for path in sorted(self._own.parent.glob(self._pattern)) if path != self._own]
        for path in others:
            # A journal may be about to be removed, with its refused request, or be written by a machine that vanished.
            with suppress(OSError, UserError):
                self._read(path)
        return [path for path in others if path not in self._ends]

    def _read(self, path: Path) -> None:
        """Read what is new in a journal."""
        size = path.stat().st_size
        if path in self._ends or not size or self._sizes.get(path) == size:
            return
        journal = read_journal(path)
        self._sizes[path] = size
        if started := journal.timed(SupervisionStarted):
            self._starts[path] = started[0]
        if path in self._starts and (ended := journal.timed(AttemptEnded)):
            row, at = ended[0]
            reason = row.reason or row.status.replace("_", " ")
            refused = row.status is Status.REFUSED or reason.startswith(f"{UserError.__name__}:")
            agreed = row.status in _AGREED
            self._ends[path] = None if agreed else PeerEnd(at, row.status, self._words(path, reason), refused)

    def _words(self, path: Path, reason: str) -> str:
        """Return who ended, and why, in one line."""
        started, _ = self._starts[path]
        return f"rank {started.rank} on {started.host}: {reason}"

    def _find_vanished(self) -> None:
        """Find processes whose supervisors were killed, or whose machines were lost."""
        here = socket.gethostname()
        left = {path: start for path, start in self._starts.items() if path not in self._ends}
        gone = {
            path
            for path, (start, _) in left.items()
            if start.host == here and is_alive(start.pid, start.process) is False
        }
        gone |= self._fell_silent({path for path, (start, _) in left.items() if start.host != here})
        for path in gone:
            with suppress(OSError, UserError):
                self._read(path)  # it may have written its end just before it exited
                if path not in self._ends and path.exists():
                    self._ends[path] = PeerEnd(datetime.now(UTC), Status.CRASHED, self._words(path, _GONE), False)

    def _fell_silent(self, elsewhere: set[Path]) -> set[Path]:
        """Return the journals of other machines that have long had no heartbeat, while this machine has one."""
        if not elsewhere or time.monotonic() < self._next_silence_s:
            return set()
        self._next_silence_s = time.monotonic() + _SILENCE_EVERY_S
        with suppress(UserError):
            limit_s = silence_limit(supervised=True).total_seconds()
            oldest_s = file_system_time(self._own.parent) - limit_s
            silent = {path for path in (self._own, *elsewhere) if modified_s(telemetry_path(path)) < oldest_s}
            silent = set() if self._own in silent else silent
            twice, self._silent = silent & self._silent, silent
            return twice
        return set()
