"""Connects the supervisors of one training's processes: when a process ends, all others learn why.

The first rank's supervisor is the hub. When a process ends, its supervisor reports the end before it exits. If a
supervisor vanishes without a report, its closed connection shows that.
"""

from __future__ import annotations

import hmac
import json
import select
import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ledger_lab.ledger import AttemptEnded, Status

_CONNECT_S = 30.0
_ANSWER_S = 2.0
"""How long to wait until the hub has passed an end on [s]."""
_LONGEST_LINE = 1 << 16
_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20_000}
"""TCP options that detect a vanished machine within 20 s, see tcp(7)."""

_AGREED = (Status.COMPLETED, Status.TARGET_REACHED, Status.STOPPED, Status.INVALID)
"""Statuses that all processes reach together, without a message."""


@dataclass(frozen=True, kw_only=True)
class PeerEnd:
    """How the process of a rank ended."""

    rank: int
    host: str
    status: Status
    reason: str | None
    exit_status: int

    def __post_init__(self) -> None:
        """Restore the status from its plain value.

        Raises:
            ValueError: If there is no such status.
        """
        object.__setattr__(self, "status", Status(self.status))

    @property
    def agreed(self) -> bool:
        """Whether the other processes end the same way without being told."""
        return self.status in _AGREED

    @property
    def in_words(self) -> str:
        """The process and the reason of its end, in one line."""
        return f"rank {self.rank} on {self.host}: {self.reason or self.status.replace('_', ' ')}"


@dataclass(kw_only=True)
class _Line:
    """A connection to another supervisor."""

    connection: socket.socket
    rank: int | None = None
    """``None`` until the other supervisor has identified itself."""
    host: str = ""
    ended: bool = False
    """Whether it reported the end of its process; it may disconnect after that."""
    unread: bytes = b""

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; ignore a broken connection."""
        with suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")


@dataclass(kw_only=True, eq=False)
class Peers:
    """The other supervisors, as seen by this one. Call :meth:`hear` when :meth:`fileno` is readable."""

    rank: int
    """Rank of the process supervised here."""
    token: str
    """Secret shared by the supervisors of this training."""
    listener: socket.socket | None = None
    """Socket that the others connect to; only on the first rank."""
    first: PeerEnd | None = None
    """The first other process that ended before the rest."""
    _host: str = field(default_factory=socket.gethostname)
    _lines: dict[int, _Line] = field(default_factory=dict)
    _poll: select.epoll = field(default_factory=select.epoll)
    _told: bool = False
    _answered: bool = False

    def __post_init__(self) -> None:
        """Accept connections, if there is a listener."""
        if self.listener is not None:
            self._poll.register(self.listener, select.EPOLLIN)

    def connect(self, address: str, port: int, host: str) -> None:
        """Connect to the first rank's supervisor.

        Args:
            address: Address that it listens on.
            port: Port that it listens on.
            host: Host name of its machine.

        Raises:
            OSError: If it can't be reached.
        """
        try:
            connection = socket.create_connection((address, port), timeout=_CONNECT_S)
        except OSError as error:
            raise OSError(f"the supervisor of rank 0 on {host} cannot be reached at port {port}: {error}") from error
        line = self._add(connection)
        line.rank, line.host = 0, host
        line.send({"token": self.token, "rank": self.rank, "host": self._host})

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._poll.fileno()

    def hear(self, patience_s: float = 0.0) -> None:
        """Read all messages from the other supervisors.

        Args:
            patience_s: How long to wait for a process to end [s].
        """
        deadline_s = time.monotonic() + patience_s
        while self._lines or self.listener is not None:
            waiting = self.first is None and not self._answered
            ready = self._poll.poll(max(0.0, deadline_s - time.monotonic()) if waiting else 0.0)
            if not ready:
                return
            for descriptor, _ in ready:
                if descriptor in self._lines:
                    self._read(self._lines[descriptor])
                elif self.listener is not None:
                    try:
                        self._add(self.listener.accept()[0])
                    except OSError:  # closed already, or no descriptor is free; retried later
                        return

    def settle(self, row: AttemptEnded, exit_status: int, *, asked: bool) -> tuple[AttemptEnded, int]:
        """Report our own process's end to the others before it is written to the ledger.

        Args:
            row: Our process's own account of its end.
            exit_status: The exit status that goes with it.
            asked: Whether our process was asked to end before any other process had ended.

        Returns:
            The row to write and the exit status; if another process failed first, they name its end as the cause.
        """
        self.hear()
        if self.first is not None and not asked and row.status not in _AGREED:
            row = replace(row, status=self.first.status, reason=self.first.in_words)
            exit_status = self.first.exit_status
        if not self._told:
            self._told = True
            end = PeerEnd(
                rank=self.rank, host=self._host, status=row.status, reason=row.reason, exit_status=exit_status
            )
            self._send(end)
            if not end.agreed:
                self.hear(_ANSWER_S if self.listener is None else 0.0)  # the hub answers when all supervisors know
        return row, exit_status

    def close(self) -> None:
        """Close all connections."""
        for line in self._lines.values():
            line.connection.close()
        if self.listener is not None:
            self.listener.close()
        self._poll.close()

    def _send(self, end: PeerEnd) -> None:
        """Send an end to all identified supervisors."""
        for line in self._lines.values():
            if line.rank is not None:
                line.send({"ended": asdict(end)})

    def _add(self, connection: socket.socket) -> _Line:
        """Add a connection."""
        connection.settimeout(_ANSWER_S)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        line = self._lines[connection.fileno()] = _Line(connection=connection)
        self._poll.register(connection, select.EPOLLIN)
        return line

    def _read(self, line: _Line) -> None:
        """Read a connection's messages; remove it if it is closed or sends nonsense."""
        try:
            data = line.connection.recv(_LONGEST_LINE, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *messages, line.unread = (line.unread + data).split(b"\n")
        sane = all([self._take(line, message) for message in messages]) and len(line.unread) <= _LONGEST_LINE
        if sane and data:
            return
        del self._lines[line.connection.fileno()]
        self._poll.unregister(line.connection)
        line.connection.close()
        if line.rank is not None and not line.ended:
            reason = "gone, with its supervisor, and without a word"
            gone = PeerEnd(rank=line.rank, host=line.host, status=Status.CRASHED, reason=reason, exit_status=1)
            self._note(gone, None)

    def _take(self, line: _Line, message: bytes) -> bool:
        """Act on a message.

        Returns:
            Whether the message is valid and from a supervisor of this training.
        """
        try:
            content = json.loads(message)
            if line.rank is None:
                if not hmac.compare_digest(str(content["token"]), self.token):
                    return False
                line.rank, line.host = int(content["rank"]), str(content["host"])
                if self.first is not None:
                    line.send({"ended": asdict(self.first)})
            else:
                end = PeerEnd(**content["ended"])
                line.ended = line.ended or end.rank == line.rank
                if not end.agreed:
                    self._note(end, line)
        except (ValueError, TypeError, KeyError):
            return False
        return True

    def _note(self, end: PeerEnd, heard_from: _Line | None) -> None:
        """Remember the first end; the hub passes it on, and answers a report of a later end with the first."""
        known = self.first
        if end.rank == self.rank:
            self._answered = True
        elif known is None:
            self.first = end
        if self.listener is None:
            return
        if known is None and not self._told:
            self._send(end)
        elif heard_from is not None:
            heard_from.send({"ended": asdict(known or end)})
