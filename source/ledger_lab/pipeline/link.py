"""The working process's line to its supervisor."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ledger_lab.ledger import AttemptEnded

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
        connection.settimeout(_ANSWER_S)

    def begin(
        self, journals: Sequence[Path], run_ids: Sequence[str], attempt: int | None, device: str, log: Path
    ) -> None:
        """Put an attempt into the supervisor's charge: from now on it ends with a row, whatever ends it.

        Args:
            journals: Files that the supervisor creates, one per run's directory.
            run_ids: The run that each of them belongs to.
            attempt: Number of the attempt; ``None`` for a stand-alone evaluation.
            device: Where the work is done, as ``--device`` says it: what is metered.
            log: What this process prints, if anything; when it is gone, secrets in there are replaced.

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
        self._ask({"what": "end", "row": row.to_data(), "exit_status": exit_status})

    def _ask(self, message: dict[str, Any]) -> None:
        """Send a message and wait until it is done."""
        self._connection.send(json.dumps(message).encode())
        answer = self._connection.recv(1 << 16)
        if not answer:
            raise ConnectionError("the supervisor of this process is gone")
        error = json.loads(answer)["error"]
        if error is not None:
            raise OSError(error)
