"""The connection of the working process to its supervisor: a pipe that no other process can open."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ledger_lab.errors import UserError
from ledger_lab.ledger import AttemptEnded
from ledger_lab.ledger.endings import reason_of, status_of
from ledger_lab.ledger.meters import Suspensions
from ledger_lab.reports.terminal.console import EXIT_USER_ERROR
from ledger_lab.reports.terminal.exit_status import exit_status_of

_ANSWER_S = 60.0
"""How long to wait for an answer [s]: the supervisor may be waiting for a disk."""


class SupervisorLostError(ConnectionError):
    """The supervisor has ended before its worker, because something killed it."""


@dataclass(frozen=True, kw_only=True)
class Begin:
    """A process asks its supervisor to create journals and to write the end of an attempt."""

    journals: dict[Path, str]
    """Paths of the journals, with the run of each."""
    attempt: int | None
    """Number of the attempt; ``None`` for a stand-alone evaluation."""
    rank: int
    device: str
    grace_s: float | None
    """How long the process may take to end after a signal [s]; ``None`` for the supervisor's own limit."""
    log: Path
    """File with what the process prints."""


@dataclass(frozen=True, kw_only=True)
class End:
    """A process says how its attempt ended. The answer is the row that was written."""

    row: AttemptEnded
    exit_status: int


class Link:
    """Sends messages to the supervisor, and waits for its answers."""

    def __init__(self, connection: Connection, suspensions: Suspensions | None = None) -> None:
        """Use a connection.

        Args:
            connection: Connection to the supervisor.
            suspensions: Where the supervisor notes when this process is stopped; ``None`` if it does not.
        """
        self.suspensions = suspensions or Suspensions()
        """Intervals in which this process was stopped."""
        self._connection, self._begun = connection, False
        self.ended: AttemptEnded | None = None
        """The row of the end, as the supervisor wrote it; it may name another rank's end as the cause."""

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
        runs = {path.absolute(): run_id for path, run_id in zip(journals, run_ids, strict=True)}
        self._ask(Begin(journals=runs, attempt=attempt, rank=rank, device=device, grace_s=grace_s, log=log.absolute()))
        self._begun = True

    @contextmanager
    def errors_told(self, started_ns: int) -> Iterator[None]:
        """Let the supervisor write an exception that leaves the context as the end of the attempt, if it has begun.

        Args:
            started_ns: When the attempt began, on the clock of :func:`time.perf_counter_ns`.
        """
        try:
            yield
        except SystemExit:
            raise
        except BaseException as error:
            if self._begun and self.ended is None:
                status, wall_ns = status_of(error), time.perf_counter_ns() - started_ns
                row = AttemptEnded(
                    status=status,
                    reason=reason_of(error),
                    wall_ns=wall_ns,
                    peak_host_memory_bytes=None,
                    peak_gpu_memory_bytes=None,
                )
                with suppress(OSError):
                    self.end(row, EXIT_USER_ERROR if isinstance(error, UserError) else exit_status_of(status))
            raise

    def end(self, row: AttemptEnded, exit_status: int) -> None:
        """Let the supervisor write how the attempt ended.

        Args:
            row: The row of the end.
            exit_status: Exit status of the whole program.

        Raises:
            OSError: If the row can't be written, or the supervisor has ended.
        """
        self.ended = self._ask(End(row=row, exit_status=exit_status))

    def _ask(self, message: Begin | End) -> Any:  # noqa: ANN401 - the answer depends on the message
        """Send a message, and return the answer.

        Raises:
            OSError: If the supervisor can't carry it out, or does not answer.
            SupervisorLostError: If it has ended.
        """
        try:
            self._connection.send(message)
            if not self._connection.poll(_ANSWER_S):
                raise TimeoutError(f"the supervisor does not answer within {_ANSWER_S:g} s")
            answer = self._connection.recv()
        except (EOFError, ConnectionError) as error:
            raise SupervisorLostError(
                "something killed the supervisor of this training, so its end is not recorded: the attempt is lost"
            ) from error
        if isinstance(answer, OSError):
            raise answer
        return answer
