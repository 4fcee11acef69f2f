"""The working process's line to its supervisor."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ledger_lab.ledger import AttemptEnded
from ledger_lab.ledger.endings import CollectiveError
from ledger_lab.supervision.channel import Channel
from ledger_lab.supervision.messages import Begin, Done, End, Ended, Failed, Join, Listen, Listening, Message, decode

_ANSWER_S = 60.0
"""How long to wait for an answer: the supervisor may be waiting for a disk."""


class Link:
    """Tells the supervisor what it has to know; it answers when that is on disk."""

    def __init__(self, connection: socket.socket) -> None:
        """Take the line.

        Args:
            connection: Connected stream socket.
        """
        self._channel = Channel(connection, _ANSWER_S)
        self._secondhand = False
        self.ended: AttemptEnded | None = None
        """How the attempt ended, as it is written: by the end of another rank's process where that came first."""

    def listen(self, address: str) -> int:
        """Let the supervisors of other ranks connect to this process's.

        Args:
            address: Address to listen at.

        Returns:
            The port.

        Raises:
            OSError: If that is not possible, or the supervisor is gone.
        """
        return self._ask(Listen(address=address), Listening).port

    def join(self, join: Join) -> None:
        """Connect the supervisors of all ranks: from now on, when the process of one ends, so do the others.

        Args:
            join: Where they meet.

        Raises:
            OSError: If they can't be reached, or the supervisor of this process is gone.
        """
        self._ask(join, Done)

    @contextmanager
    def others_ended_first(self) -> Iterator[None]:
        """Let the supervisor look for another rank's end when a collective fails inside."""
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
        """Put an attempt into the supervisor's charge: from now on it ends with a row, whatever ends it.

        Args:
            journals: Files that the supervisor creates, one per run's directory.
            run_ids: The run that each of them belongs to.
            attempt: Number of the attempt; ``None`` for a stand-alone evaluation.
            device: Where the work is done, as ``--device`` says it: what is metered.
            log: What this process prints, if anything; when it is gone, secrets in there are replaced.
            rank: Rank of this process.
            grace_s: How long this process may take to end once it was asked to [s]; ``None`` for as long as any.

        Raises:
            OSError: If a journal can't be created, or the supervisor is gone.
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

    def end(self, row: AttemptEnded, exit_status: int) -> None:
        """Say how the attempt ended.

        Args:
            row: The end.
            exit_status: Exit status of the whole program.

        Raises:
            OSError: If it can't be written, or the supervisor is gone.
        """
        told = self._ask(End(row=row, exit_status=exit_status, secondhand=self._secondhand), Ended).row
        self.ended = type(row).from_data(told.to_data())

    def _ask[M: Message](self, message: Message, answer: type[M]) -> M:
        """Send a message, wait until it is done, and return the answer.

        Raises:
            OSError: If it can't be done, or the supervisor is gone.
        """
        self._channel.send_bytes(message.encode())
        try:
            said = decode(self._channel.recv_bytes(), answer, Failed)
        except EOFError as error:
            raise ConnectionError("the supervisor of this process is gone") from error
        if isinstance(said, answer):
            return said
        raise OSError(said.reason if isinstance(said, Failed) else "no answer")
