"""The line between the supervisors of one training's processes: when one of these ends, all others hear why.

The first rank's supervisor is in the middle. Whatever ends a process, its supervisor says so before it goes itself; one
that goes without a word is missed by its connection.
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
"""How long to wait until the middle has passed an end on."""
_LONGEST_LINE = 1 << 16
_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20_000}
"""A machine that vanishes is missed within 20 s (tcp(7))."""

_AGREED = (Status.COMPLETED, Status.TARGET_REACHED, Status.STOPPED, Status.INVALID)
"""How all processes end together."""


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
        """Whether the others end the same way by themselves."""
        return self.status in _AGREED

    @property
    def in_words(self) -> str:
        """Who ended, and why, in one line."""
        return f"rank {self.rank} on {self.host}: {self.reason or self.status.replace('_', ' ')}"


@dataclass(kw_only=True)
class _Line:
    """A connection to another supervisor."""

    connection: socket.socket
    rank: int | None = None
    """``None`` while it has not said who it is."""
    host: str = ""
    ended: bool = False
    """Whether it said how its process ended, after which it may go."""
    unread: bytes = b""

    def send(self, message: dict[str, Any]) -> None:
        """Send a message, if anybody is still there."""
        with suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")


@dataclass(kw_only=True, eq=False)
class Peers:
    """The other supervisors, as one of them sees them. There is something to hear when :meth:`fileno` is readable."""

    rank: int
    """Rank of the process that is supervised here."""
    token: str
    """What only the supervisors of this training know."""
    listener: socket.socket | None = None
    """Where the others connect to, on the first rank."""
    first: PeerEnd | None = None
    """The first process besides ours that ended before the others did."""
    _host: str = field(default_factory=socket.gethostname)
    _lines: dict[int, _Line] = field(default_factory=dict)
    _poll: select.epoll = field(default_factory=select.epoll)
    _told: bool = False
    _answered: bool = False

    def __post_init__(self) -> None:
        """Let the others come."""
        if self.listener is not None:
            self._poll.register(self.listener, select.EPOLLIN)

    def connect(self, address: str, port: int, host: str) -> None:
        """Connect to the first rank's supervisor.

        Args:
            address: Where it listens.
            port: The port.
            host: What its machine calls itself.

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
        """Take in everything that the others have said.

        Args:
            patience_s: How long to wait until somebody has ended [s].
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
                    except OSError:  # gone already, or nothing to be had: who still wants in is there next time, too
                        return

    def settle(self, row: AttemptEnded, exit_status: int, *, asked: bool) -> tuple[AttemptEnded, int]:
        """Tell the others how our own process ended, before it is written, so that they know before anybody goes.

        Args:
            row: How it ended, as it says itself.
            exit_status: Its exit status then.
            asked: Whether somebody asked it to end before any other process had ended.

        Returns:
            How it ended, and the exit status: by the end of another one where that came first.
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
                self.hear(_ANSWER_S if self.listener is None else 0.0)  # the middle answers when everybody is told
        return row, exit_status

    def close(self) -> None:
        """Go."""
        for line in self._lines.values():
            line.connection.close()
        if self.listener is not None:
            self.listener.close()
        self._poll.close()

    def _send(self, end: PeerEnd) -> None:
        """Tell everybody who has said who they are."""
        for line in self._lines.values():
            if line.rank is not None:
                line.send({"ended": asdict(end)})

    def _add(self, connection: socket.socket) -> _Line:
        """Take a connection."""
        connection.settimeout(_ANSWER_S)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        line = self._lines[connection.fileno()] = _Line(connection=connection)
        self._poll.register(connection, select.EPOLLIN)
        return line

    def _read(self, line: _Line) -> None:
        """Take in what came over a connection, or that it is closed."""
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
            Whether it was one of another supervisor of this training.
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
        """Remember who ended first, and pass it on from the middle; who speaks of a later end hears of that one."""
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
