"""Runs that go on: their rows are written by the test, and their process is that of the test, or none."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Health,
    Journal,
    Row,
    Status,
    SupervisionStarted,
    Telemetry,
)
from ledger_lab.ledger.costs.prices import load_prices
from ledger_lab.ledger.liveness import identify_process
from tests.fakes.ledgers import SECOND, declared, result, sha256_of, window

NOBODY = 2**22 + 1
"""A process id that no process can have."""


class _Ago:
    """A clock that is behind."""

    def __init__(self, ago: timedelta) -> None:
        self._ago = ago

    def now(self) -> datetime:
        return datetime.now(UTC) - self._ago


class LiveTraining:
    """A training that writes its rows when the test says so."""

    def __init__(
        self,
        root: Path,
        run_id: str,
        *,
        alive: bool = True,
        pid: int | None = None,
        supervised: bool = False,
        ago: timedelta = timedelta(),
        folder: str | None = None,
        **changes: object,
    ) -> None:
        """Declare the run, and start its first attempt.

        Args:
            root: Root of the ledger.
            run_id: The run.
            alive: Whether its process exists.
            pid: Its process; by default that of the test.
            supervised: Whether a supervisor watches it.
            ago: How long ago its rows are written, by their times.
            folder: Name of its directory; by default, its id.
            changes: Fields of the declaration.
        """
        self.run_id, self.directory = run_id, root / "rsl_rl" / "e" / (folder or run_id)
        self.directory.mkdir(parents=True)
        self._pid, self.iteration = (pid or os.getpid()) if alive else NOBODY, 0
        self._journal = self._open("journal-1-0.jsonl", ago)
        price = load_prices()["aws-g6.xlarge"].to_dict()
        self.write(declared(run_id, **{"max_iterations": 100, "price": price, "device": "cuda:0", **changes}))
        host, process = socket.gethostname(), identify_process(self._pid)
        self.write(
            AttemptStarted(run_id=run_id, attempt=1, rank=0, pid=self._pid, host=host, wall_ns=SECOND, process=process)
        )
        self.write(window(None, 0, {"startup": 2 * SECOND}, 2 * SECOND))
        self._supervisor = self._open("journal-1-supervisor.jsonl", ago) if supervised else None
        if self._supervisor is not None:
            started = SupervisionStarted(run_id=run_id, attempt=1, pid=self._pid, host=host, wall_ns=0, process=process)
            self._supervisor.append(started)

    def _open(self, name: str, ago: timedelta) -> Journal:
        """Open a journal whose clock is behind."""
        journal = Journal(self.directory / name)
        if ago:
            journal._clock = _Ago(ago)  # type: ignore[assignment]
        return journal

    def write(self, row: Row) -> None:
        """Append a row of the training."""
        self._journal.append(row)

    def iterate(self, iterations: int = 1) -> None:
        """Complete iterations of 3 s."""
        for _ in range(iterations):
            self.iteration += 1
            wall_ns = (2 + 3 * self.iteration) * SECOND
            self.write(window(self.iteration, 40 * self.iteration, {"simulate": 3 * SECOND}, wall_ns))
        self._journal.settle()

    def save(self, successes: int | None = None) -> str:
        """Save a policy, and score it if its successes of 10 are given; return its name."""
        name = f"model_{self.iteration}.pt"
        (self.directory / name).write_bytes(b"weights")
        self.write(
            CheckpointSaved(
                path=name,
                sha256=sha256_of(self.run_id, name),
                size_bytes=7,
                iteration=self.iteration,
                env_steps=40 * self.iteration,
                wall_ns=(2 + 3 * self.iteration) * SECOND,
            )
        )
        if successes is not None:
            self.write(result(self.run_id, name, successes, purpose="check"))
        self._journal.settle()
        return name

    def event(self, evidence: str) -> None:
        """Write a health event."""
        wall_ns = (2 + 3 * self.iteration) * SECOND
        row = Health(event="kl", iteration=self.iteration, wall_ns=wall_ns, evidence=evidence, advice="a", stops=False)
        self.write(row)

    def beat(self) -> None:
        """Write a row of the supervisor, at the present time."""
        assert self._supervisor is not None
        self._supervisor._clock = _Ago(timedelta())  # type: ignore[assignment]
        self._supervisor.append(Telemetry(wall_ns=3600 * SECOND, host=None, devices=[]))
        self._supervisor.settle()

    def say(self, text: str) -> None:
        """Print to its console."""
        with (self.directory / "console.log").open("a", encoding="utf-8") as log:
            log.write(text)

    def end(self, status: Status = Status.COMPLETED, reason: str | None = None) -> None:
        """End the attempt."""
        self.write(
            AttemptEnded(
                status=status,
                reason=reason,
                wall_ns=(3 + 3 * self.iteration) * SECOND,
                peak_host_memory_bytes=2_000_000_000,
                peak_gpu_memory_bytes=None,
            )
        )
        self.close()

    def close(self) -> None:
        """Close its journals, as if it were killed."""
        self._journal.close()
        if self._supervisor is not None:
            self._supervisor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
