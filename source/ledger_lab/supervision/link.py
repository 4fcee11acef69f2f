"""The working process's line to its supervisor."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ledger_lab.ledger import AttemptEnded
from ledger_lab.ledger.endings import CollectiveError

_ANSWER_S = 60.0
"""How long to wait for an answer: the supervisor may be waiting for a disk."""


class Link:
    """Tells the supervisor what it has to know; it answers when that is on disk."""

    def __init__(self, connection: socket.socket) -> None:
        """Take the line.

        Args:
            connection: Of message boundaries (``SOCK_SEQPACKET``).
        """
        self._connection = connection
        self._secondhand = False
        self.ended: AttemptEnded | None = None
        """How the attempt ended, as it is written: by the end of another rank's process where that came first."""
        connection.settimeout(_ANSWER_S)

    def listen(self, address: str) -> int:
        """Let the supervisors of other ranks connect to this process's.

        Args:
            address: Address to listen at; empty for all of this machine.

        Returns:
            The port.

        Raises:
            OSError: If that is not possible, or the supervisor is gone.
        """
        port: int = self._ask({"what": "listen", "address": address})["port"]
        return port

    def join(self, rank: int, address: str, port: int, host: str, token: str) -> None:
        """Connect the supervisors of all ranks: from now on, when the process of one ends, so do the others.

        Args:
            rank: Rank of this process.
            address: Where the first rank's supervisor listens.
            port: The port.
            host: What its machine calls itself.
            token: What only the supervisors of this training know.

        Raises:
            OSError: If it can't be reached, or the supervisor of this process is gone.
        """
        message = {"what": "join", "rank": rank, "address": address, "port": port, "host": host, "token": token}
        self._ask(message)

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
                {
                    "what": "begin",
                    "journal": str(path.absolute()),
                    "run_id": run_id,
                    "attempt": attempt,
                    "device": device,
                    "rank": rank,
                    "grace_s": grace_s,
                    "log": str(log.absolute()),
                }
            )

    def end(self, row: AttemptEnded, exit_status: int) -> None:
        """Say how the attempt ended.

        Args:
            row: The end.
            exit_status: Exit status of the whole program.

        Raises:
            OSError: If it can't be written, or the supervisor is gone.
        """
        message = {"what": "end", "row": row.to_data(), "exit_status": exit_status, "secondhand": self._secondhand}
        self.ended = type(row).from_data(self._ask(message)["row"])

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message, wait until it is done, and return the answer."""
        self._connection.send(json.dumps(message).encode())
        answer = self._connection.recv(1 << 16)
        if not answer:
            raise ConnectionError("the supervisor of this process is gone")
        content: dict[str, Any] = json.loads(answer)
        if content["error"] is not None:
            raise OSError(content["error"])
        return content
