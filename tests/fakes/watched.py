"""Runs whose rows were written some time ago, for what depends on the time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ledger_lab.ledger import (
    STATE_FILE,
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Health,
    Journal,
    SchedulerJob,
    StateSaved,
    Status,
    SupervisionStarted,
    Telemetry,
)
from ledger_lab.ledger import journal as journal_module
from ledger_lab.ledger.costs.prices import load_prices
from ledger_lab.ledger.rows import ProcessIdentity
from tests.fakes.ledgers import SECOND, declared, result, sha256_of, window

G6 = load_prices()["aws-g6.xlarge"]
"""A rented machine that is billed by the second, for at least a minute."""


STATE = b"a state"
"""Content of a state file."""

NOBODY = 2**22 + 1
"""A process that can't exist."""


@contextmanager
def written(ago_s: float) -> Iterator[None]:
    """Within the context, rows are dated so many seconds back."""

    class Clock:
        @staticmethod
        def now(zone: object) -> datetime:
            return datetime.now(UTC) - timedelta(seconds=ago_s)

    journal_module.datetime = Clock  # type: ignore[attr-defined, assignment]
    try:
        yield
    finally:
        journal_module.datetime = datetime  # type: ignore[attr-defined]


def make_run(
    root: Path,
    run_id: str,
    *,
    took_s: int = 600,
    ago_s: float = 0.0,
    reached: bool = False,
    status: Status | None = None,
    iterations: int = 50,
    host: str = "elsewhere",
    process: ProcessIdentity | None = None,
    supervised_ago_s: float | None = None,
    job: SchedulerJob | None = None,
    health: Health | None = None,
    state: bool = False,
    **changes: object,
) -> Path:
    """Write a run of one attempt on a rented machine: 10 s of start-up, iterations, one check.

    Args:
        root: Root of the ledger.
        run_id: The run.
        took_s: Age of the attempt at its last row [s].
        ago_s: When all its rows were written.
        reached: Whether a proof at the end proves the target.
        status: How it ends; ``None`` for a run that never says.
        iterations: Iterations done.
        host: Its machine.
        process: Its process, which is this one; by default, one that can't exist.
        supervised_ago_s: When its supervisor wrote its last row; ``None`` without a supervisor.
        job: Its job.
        health: A health event.
        state: Whether it leaves a state at its end.
        changes: Fields of the declaration.

    Returns:
        Its directory.
    """
    run_dir = root / "rsl_rl" / "e" / run_id
    run_dir.mkdir(parents=True)
    if state:
        (run_dir / STATE_FILE).write_bytes(STATE)
    wall_ns, pid = took_s * SECOND, NOBODY if process is None else os.getpid()
    with written(ago_s):
        with Journal(run_dir / "journal-1-0.jsonl") as journal:
            journal.append(declared(run_id, **{"price": G6.to_dict(), "max_iterations": 100, **changes}))
            start = AttemptStarted(run_id=run_id, attempt=1, rank=0, pid=pid, host=host, wall_ns=SECOND)
            journal.append(replace(start, job=job, process=process))
            journal.append(window(None, 0, {"startup": 10 * SECOND}, 10 * SECOND))
            journal.append(window(iterations, 40 * iterations, {"simulate": wall_ns - 10 * SECOND}, wall_ns))
            saved = {"path": "m.pt", "sha256": sha256_of(run_id, "m.pt"), "size_bytes": 1, "wall_ns": wall_ns}
            journal.append(CheckpointSaved.from_data({**saved, "iteration": iterations, "env_steps": 40 * iterations}))
            journal.append(replace(result(run_id, "m.pt", 6, purpose="check"), wall_ns=wall_ns))
            if state:
                kept = {"sha256": hashlib.sha256(STATE).hexdigest(), "size_bytes": len(STATE)}
                kept |= {"iteration": iterations, "env_steps": 40 * iterations, "wall_ns": wall_ns}
                journal.append(StateSaved.from_data(kept))
            if health is not None:
                journal.append(health)
            if reached:
                journal.append(replace(result(run_id, "m.pt", 9, "p1-f", purpose="proof"), wall_ns=wall_ns))
            if status is not None:
                peaks = {"peak_host_memory_bytes": 1, "peak_gpu_memory_bytes": None}
                journal.append(AttemptEnded.from_data({"status": status, "reason": None, "wall_ns": wall_ns, **peaks}))
        if supervised_ago_s is not None:
            supervision = Journal(run_dir / "journal-1-supervisor.jsonl")
            supervision.append(SupervisionStarted(run_id=run_id, attempt=1, pid=pid, host=host, wall_ns=1))
    if supervised_ago_s is not None:
        with written(supervised_ago_s), supervision:
            supervision.append(Telemetry(wall_ns=wall_ns, host=None, devices=[]))
    for path in run_dir.iterdir():
        os.utime(path, times=(datetime.now(UTC).timestamp() - min(ago_s, supervised_ago_s or ago_s),) * 2)
    return run_dir
