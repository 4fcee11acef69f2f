"""The connection of the working process to its supervisor."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ledger_lab.ledger import AttemptEnded
from ledger_lab.ledger.endings import CollectiveError, reason_of, status_of
from ledger_lab.ledger.meters import Suspensions
from ledger_lab.training.supervision.channel import Channel
from ledger_lab.training.supervision.messages import (
    Begin,
    Done,
    End,
    Ended,
    Explain,
    Failed,
    Join,
    Listen,
    Listening,
    Message,
    MessageError,
    decode,
)

_ANSWER_S = 60.0
"""How long to wait for an answer [s]: the supervisor may be waiting for a disk."""


class SupervisorLostError(ConnectionError):
    """The supervisor has ended before its worker, because something killed it."""


class Link:
    """Sends messages to the supervisor, and waits for its answers."""

    def __init__(self, connection: socket.socket, suspensions: Suspensions | None = None) -> None:
        """Use a connection.

        Args:
            connection: Connected stream socket.
            suspensions: Where the supervisor notes when this process is stopped; ``None`` if it does not.
        """
        self.suspensions = suspensions or Suspensions()
        """Intervals in which this process was stopped."""
        self._channel = Channel(connection, _ANSWER_S)
        self._secondhand = False
        self.ended: AttemptEnded | None = None
        """The row of the end, as the supervisor wrote it; it may name another rank's end as the cause."""

    def listen(self, address: str) -> int:
        """Let the supervisors of other ranks connect to the supervisor of this process.

        Args:
            address: Address to listen at.

        Returns:
            The port.

        Raises:
            OSError: If the supervisor can't listen there, or has ended.
        """
        return self._ask(Listen(address=address), Listening).port

    def join(self, join: Join) -> None:
        """Connect the supervisors of all ranks. From now on, all processes end when one of them ends.

        Args:
            join: Address and secret of the connection.

        Raises:
            OSError: If the supervisor of rank 0 can't be reached, or the supervisor of this process has ended.
        """
        self._ask(join, Done)

    @contextmanager
    def others_ended_first(self) -> Iterator[None]:
        """If a collective fails within the context, let the supervisor first look for the end of another rank."""
        try:
            yield
        except CollectiveError:
            self._secondhand = True
            raise

    def begin(
        self,
        journals: Sequence[Path],
        run_ids: Sequence[str],
        attempt: int | None,
        device: str,
        log: Path,
        rank: int = 0,
        grace_s: float | None = None,
    ) -> None:
        """Let the supervisor record an attempt. From now on, every end of the attempt is written.

        Args:
            journals: Files that the supervisor creates, one per run's directory.
            run_ids: The run of each journal.
            attempt: Number of the attempt; ``None`` for a stand-alone evaluation.
            device: Device of the work, as in ``--device``; it is metered.
            log: File with the output of this process; the supervisor redacts it at the end.
            rank: Rank of this process.
            grace_s: How long this process may take to end after a signal [s]; ``None`` for the supervisor's own limit.

        Raises:
            OSError: If a journal can't be created, or the supervisor has ended.
        """
        for path, run_id in zip(journals, run_ids, strict=True):  # one by one: a message has a largest size
            self._ask(
                Begin(
                    journal=str(path.absolute()),
                    run_id=run_id,
                    attempt=attempt,
                    rank=rank,
                    device=device,
                    grace_s=grace_s,
                    log=str(log.absolute()),
                ),
                Done,
            )

    @contextmanager
    def errors_explained(self) -> Iterator[None]:
        """Let the supervisor know the exception that leaves the context.

        If the attempt has begun and has no end yet, the supervisor writes this as its end when the process has ended.
        """
        try:
            yield
        except SystemExit:
            raise
        except BaseException as error:
            with suppress(OSError, MessageError):
                self._ask(Explain(status=status_of(error), reason=reason_of(error)), Done)
            raise

    def end(self, row: AttemptEnded, exit_status: int) -> None:
        """Let the supervisor write how the attempt ended.

        Args:
            row: The row of the end.
            exit_status: Exit status of the whole program.

        Raises:
            OSError: If the row can't be written, or the supervisor has ended.
        """
        ended = self._ask(End(row=row, exit_status=exit_status, secondhand=self._secondhand), Ended).row
        self.ended = type(row).from_data(ended.to_data())

    def _ask[M: Message](self, message: Message, answer: type[M]) -> M:
        """Send a message, and wait for the answer.

        Raises:
            OSError: If the supervisor can't carry it out.
            SupervisorLostError: If it has ended.
        """
        try:
            self._channel.send_bytes(message.encode())
            received = decode(self._channel.recv_bytes(), answer, Failed)
        except (EOFError, ConnectionError) as error:
            raise SupervisorLostError(
                "something killed the supervisor of this training, so its end is not recorded: the attempt is lost"
            ) from error
        if isinstance(received, answer):
            return received
        assert isinstance(received, Failed)
        if received.errno is None:
            raise OSError(received.reason)
        raise OSError(received.errno, received.reason, received.filename)
