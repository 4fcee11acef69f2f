"""What a supervisor keeps in journals: samples once a second, and the rows about an end, whose space is reserved."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from ledger_lab.ledger import Journal, Row, TelemetryStarted
from ledger_lab.ledger.meters.gpu import GpuMeter
from ledger_lab.ledger.meters.telemetry import Sampler
from ledger_lab.ledger.runs import telemetry_path, worker_path

SAMPLE_S = 1.0
"""Time between two samples [s]."""

_CUDA = re.compile(r"cuda(?::(\d{1,9}))?")
"""Devices that have a meter."""


class Heartbeat:
    """Takes samples of one worker, and writes them into a journal for each run that the worker works on."""

    def __init__(self, pid: int, started_ns: int, tell: Callable[[str], None], *, metered: bool) -> None:
        """Read the energy counters of all devices, before it is known which of them the worker uses.

        Args:
            pid: The worker.
            started_ns: When the attempt began, on the clock of :func:`time.perf_counter_ns`.
            tell: Prints a line for the user.
            metered: Whether the worker may record something whose energy counts from now on.
        """
        self._pid, self._started_ns, self._tell = pid, started_ns, tell
        self._gpu = GpuMeter(started_ns, tell) if metered else None
        self._sampler: Sampler | None = None
        self._next_s = time.monotonic()
        self._nonsense = False
        self.journals: list[Journal] = []
        """Journals that hold only telemetry."""

    def wait_s(self, now_s: float) -> float:
        """Return the time until the next sample is due, at most a second [s].

        Args:
            now_s: The time, on the clock of :func:`time.monotonic` [s].
        """
        return SAMPLE_S if self._sampler is None else min(SAMPLE_S, self._next_s - now_s)

    def begin(self, supervision: Path, run_id: str, attempt: int | None, rank: int, device: str) -> None:
        """Take samples for one more run from now on.

        Args:
            supervision: Journal of the supervisor.
            run_id: The run.
            attempt: Number of the attempt; ``None`` for a stand-alone evaluation.
            rank: Rank of the worker.
            device: Device of the work.

        Raises:
            OSError: If the journal of the samples can't be written.
        """
        journal = Journal(telemetry_path(supervision), self.report_trouble)
        self.journals.append(journal)
        journal.append(TelemetryStarted(run_id=run_id, attempt=attempt, rank=rank))
        if self._sampler is None:
            self._sampler = Sampler(self._pid, self._started_ns)
            if (cuda := _CUDA.fullmatch(device)) is not None:
                self._gpu = self._gpu or GpuMeter(self._started_ns, self._tell)
                ask = partial(self._gpu.sample, int(cuda[1] or 0))
                self._sampler = Sampler(self._pid, self._started_ns, ask, energy_before=self._gpu.energy_at_start)
            self._next_s = time.monotonic()
        self._sampler.start_over()

    def beat(self, *, at_once: bool = False) -> bool:
        """Write a sample if one is due.

        Args:
            at_once: Write one now, whether it is due or not.

        Returns:
            Whether a sample was written.
        """
        now_s = time.monotonic()
        if self._sampler is None or (now_s < self._next_s and not at_once):
            return False
        self._next_s = max(self._next_s + SAMPLE_S, now_s)
        row = self._sampler.sample()
        try:
            for journal in self.journals:
                journal.append(row)
        except ValueError as error:  # a meter that reads nonsense must not end a training
            if not self._nonsense:
                self._tell(f"samples of the machine are left out while they can't be right: {error}")
            self._nonsense = True
            return False
        return True

    def close_devices(self) -> None:
        """Take no more samples."""
        self._sampler = None
        if self._gpu is not None:
            self._gpu.close()

    def close_journals(self) -> None:
        """Close the journals. An error is printed only; the end of an attempt does not depend on telemetry."""
        for journal in self.journals:
            try:
                journal.close()
            except OSError as error:
                self._tell(f"the last telemetry could not be written: {error}")

    def report_trouble(self, error: OSError) -> None:
        """Print that telemetry waits for disk space.

        Args:
            error: Why it can't be written.
        """
        self._tell(f"telemetry cannot be written and waits: {error}")


_BYTES = 64 * 1024
"""Space for one end [B]."""
_RETRY_S, _RETRIES = 0.5, 20


def reserve(folder: Path, ends: int) -> IO[bytes]:
    """Return a nameless file whose space is free for the ends of attempts when it is closed.

    Args:
        folder: Folder of their journals.
        ends: Number of ends.

    Raises:
        OSError: If there is no space.
    """
    file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - nameless: it never outlives this process
    os.posix_fallocate(file.fileno(), 0, ends * _BYTES)
    return file


def insist(rows: Mapping[Journal, Row]) -> None:
    """Write a row into each of several journals, retrying for 10 s. Each journal gets its row once.

    Args:
        rows: The journals with their rows.

    Raises:
        OSError: If a journal still could not be written.
    """
    for journal, row in rows.items():
        with suppress(OSError):  # the journal keeps the row, and settles it below
            journal.append(row)
    for left in reversed(range(_RETRIES + 1)):
        errors = []
        for journal in rows:
            try:
                journal.settle()
            except OSError as error:
                errors.append(error)
        if not errors:
            return
        if not left:
            raise errors[0]
        time.sleep(_RETRY_S)


def withdraw(supervision: Path, log: Path | None, *, whole: bool) -> None:
    """Remove the files of one refused process.

    Some mistakes of a request show only in the simulation, after the first rows of the attempt were written. If nothing
    was trained or scored, these rows are about nothing. They are removed after the process has ended; until then, the
    last row has the status ``refused``.

    Args:
        supervision: Journal of its supervisor, closed.
        log: File with the output of the process.
        whole: Whether to remove the directory, too, if no journal is left in it: no other process of the run, and no
            earlier attempt.

    Raises:
        OSError: If a file can't be removed. The journal of the supervisor, which says that the request was refused, is
            removed last.
    """
    for path in (worker_path(supervision), telemetry_path(supervision), log, supervision):
        if path is not None:
            path.unlink(missing_ok=True)
    folder = supervision.parent
    if whole and not any(folder.glob("journal-*")):
        shutil.rmtree(folder, ignore_errors=True)  # another rank may be removing it, too
