"""Connects the supervisors of one training's processes: when a process ends, all others learn why.

The first rank's supervisor is the hub. When a process ends, its supervisor reports the end before it exits. If a
supervisor vanishes without a report, its closed connection shows that.
"""

from __future__ import annotations

import select
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import AuthenticationError
from multiprocessing.connection import answer_challenge, deliver_challenge

from ledger_lab.ledger import AttemptEnded, Status
from ledger_lab.training.supervision.admission import Admission, member_channel
from ledger_lab.training.supervision.channel import Channel
from ledger_lab.training.supervision.messages import LONGEST_REASON, Hello, Message, MessageError, PeerEnd, decode

_CONNECT_S = 30.0
_RETRY_S = 0.2
_ANSWER_S = 2.0
"""How long to wait until the hub has passed an end on [s]."""


@dataclass(kw_only=True)
class _Line:
    """A connection to the supervisor of another rank."""

    channel: Channel
    rank: int
    host: str
    ended: bool = False
    """Whether the supervisor reported the end of its process; after that, it may disconnect."""

    def send(self, message: Message) -> None:
        """Send a message; ignore a broken connection."""
        with suppress(OSError):
            self.channel.send_bytes(message.encode())


@dataclass(kw_only=True, eq=False)
class Peers:
    """The other supervisors, as seen by this supervisor. Call :meth:`hear` when :meth:`fileno` is readable."""

    rank: int
    """Rank of the process supervised here."""
    secret: bytes
    """Shared by the supervisors of this training."""
    admission: Admission | None = None
    """Admits the others; only on the first rank."""
    first: PeerEnd | None = None
    """The first end of another process that the processes did not agree on."""
    _host: str = field(default_factory=socket.gethostname)
    _lines: dict[int, _Line] = field(default_factory=dict)
    _poll: select.epoll = field(default_factory=select.epoll)
    _reported: bool = False
    _answered: bool = False

    def __post_init__(self) -> None:
        """Watch for connections, if this is the hub."""
        if self.admission is not None:
            self._poll.register(self.admission, select.EPOLLIN)

    def connect(self, address: str, port: int, host: str) -> None:
        """Connect to the first rank's supervisor, and prove to each other that both belong to the training.

        Args:
            address: Address of the first rank's supervisor.
            port: Port of that supervisor.
            host: Host name of its machine.

        Raises:
            OSError: If that supervisor can't be reached, or does not know the secret.
        """
        deadline_s = time.monotonic() + _CONNECT_S
        while True:
            try:
                channel = member_channel(socket.create_connection((address, port), timeout=_CONNECT_S))
            except OSError as error:
                raise OSError(
                    f"the supervisor of rank 0 on {host} cannot be reached at port {port}: {error}"
                ) from error
            try:
                answer_challenge(channel, self.secret)  # type: ignore[arg-type]  # of a connection it uses two methods
                deliver_challenge(channel, self.secret)  # type: ignore[arg-type]
                channel.send_bytes(Hello(rank=self.rank, host=self._host).encode())
            except AuthenticationError as error:
                channel.close()
                raise OSError(f"what answers at port {port} on {host} is not the supervisor of rank 0") from error
            except (OSError, EOFError) as error:  # it had too many strangers at once
                channel.close()
                if time.monotonic() > deadline_s:
                    raise OSError(
                        f"the supervisor of rank 0 on {host} does not answer at port {port}: {error or 'it hung up'}"
                    ) from error
                time.sleep(_RETRY_S)
            else:
                self._add(channel, 0, host)
                return

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._poll.fileno()

    def hear(self, patience_s: float = 0.0) -> None:
        """Read all messages from the other supervisors.

        Args:
            patience_s: How long to wait for a process to end [s].
        """
        deadline_s = time.monotonic() + patience_s
        while self._lines or (self.admission is not None and self.admission.is_open):
            waiting = self.first is None and not self._answered
            ready = self._poll.poll(max(0.0, deadline_s - time.monotonic()) if waiting else 0.0)
            if not ready:
                return
            heard = False
            for descriptor, _ in ready:
                if descriptor in self._lines:
                    self._read(self._lines[descriptor])
                    heard = True
                elif self.admission is not None and self.admission.is_open:
                    for channel, hello in self.admission.admitted():
                        self._welcome(channel, hello)
                        heard = True
            if not heard and time.monotonic() >= deadline_s:
                return  # strangers may connect without end

    def settle(self, row: AttemptEnded, exit_status: int, *, asked: bool) -> tuple[AttemptEnded, int]:
        """Report the end of the own process to the other supervisors, before it is written to the ledger.

        Args:
            row: The end of the own process, as that process reported it.
            exit_status: The exit status that goes with it.
            asked: Whether the own process was asked to end before any other process had ended.

        Returns:
            The row to write and the exit status; if another process failed first, they name its end as the cause.
        """
        self.hear()
        reason = None if row.reason is None else row.reason[:LONGEST_REASON]
        own = PeerEnd(rank=self.rank, host=self._host, status=row.status, reason=reason, exit_status=exit_status)
        if self.first is not None and not asked and not own.agreed:
            own = replace(own, status=self.first.status, reason=self.first.in_words, exit_status=self.first.exit_status)
            row = replace(row, status=own.status, reason=own.reason)
        if not self._reported:
            self._reported = True
            self._send(own)
            if not own.agreed:
                self.hear(_ANSWER_S if self.admission is None else 0.0)  # the hub answers when all supervisors know
        return row, own.exit_status

    def close(self) -> None:
        """Close all connections."""
        for line in self._lines.values():
            line.channel.close()
        if self.admission is not None:
            self.admission.close()
        self._poll.close()

    def _send(self, end: PeerEnd) -> None:
        """Send an end to all other supervisors."""
        for line in self._lines.values():
            line.send(end)

    def _welcome(self, channel: Channel, hello: Hello) -> None:
        """Add the supervisor of another rank, and send it the first end if there was one."""
        line = self._add(channel, hello.rank, hello.host)
        if self.first is not None:
            line.send(self.first)
        self._read(line)  # it may have sent more already

    def _add(self, channel: Channel, rank: int, host: str) -> _Line:
        """Add a connection."""
        line = self._lines[channel.fileno()] = _Line(channel=channel, rank=rank, host=host)
        self._poll.register(channel, select.EPOLLIN)
        return line

    def _read(self, line: _Line) -> None:
        """Act on the messages of a connection; remove it if it is broken or closed."""
        try:
            messages = line.channel.arrived()
        except (OSError, EOFError):
            del self._lines[line.channel.fileno()]
            self._poll.unregister(line.channel)
            line.channel.close()
            if not line.ended:
                reason = "gone, with its supervisor, and without a word"
                gone = PeerEnd(rank=line.rank, host=line.host, status=Status.CRASHED, reason=reason, exit_status=1)
                self._note(gone, None)
            return
        for message in messages:
            with suppress(MessageError):  # ignore everything except a report of an end
                self._take(line, decode(message, PeerEnd))

    def _take(self, line: _Line, end: PeerEnd) -> None:
        """Act on a reported end. The hub accepts only reports of a supervisor about its own process."""
        if self.admission is not None and end.rank != line.rank:
            return
        line.ended = line.ended or end.rank == line.rank
        if not end.agreed:
            self._note(end, line)

    def _note(self, end: PeerEnd, heard_from: _Line | None) -> None:
        """Remember the first end; the hub passes it on, and answers a report of a later end with the first."""
        known = self.first
        if end.rank == self.rank:
            self._answered = True
        elif known is None:
            self.first = end
        if self.admission is None:
            return
        if known is None and not self._reported:
            self._send(end)
        elif heard_from is not None:
            heard_from.send(known or end)
