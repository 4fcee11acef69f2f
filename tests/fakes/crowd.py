"""Many processes that write into one ledger at the same time: ``crowd.py ROOT COUNT``.

Every fourth process writes a run of its own with rows of all kinds, and the other three are further ranks of it, in the
same directory.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.synthetic_ledger import checkpoint, declared, result, telemetry, window
from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    CohortDeclared,
    EvaluationEnded,
    EvaluationStarted,
    Health,
    Journal,
    Row,
    ShutdownEnded,
    Status,
    SupervisionStarted,
)

RANKS = 4


def rows_of(writer: int) -> list[Row]:
    """Return what a process writes."""
    return list(_rows(*divmod(writer, RANKS)))


def _rows(run: int, rank: int) -> Iterator[Row]:
    run_id = f"{run:08x}"
    if rank == 0:
        yield CohortDeclared(cohort="crowd", size=75)
        yield replace(declared(run_id, run), world_size=RANKS)
        yield SupervisionStarted(run_id=run_id, attempt=1, pid=2**22 + 1, host="node", wall_ns=0)
    yield AttemptStarted(run_id=run_id, attempt=1, rank=rank, pid=2**22 + 1, host="node", wall_ns=1)
    for number in range(1, 21):
        yield window(number)
        yield telemetry(number)
    if rank == 0:
        yield checkpoint(20, 20)
        yield result(run_id, 20, run, 20, last=False)
        yield Health(event="kl", iteration=20, wall_ns=20, evidence="e", advice="a", stops=False)
        ends = {"reason": None, "wall_ns": 21, "peak_host_memory_bytes": 1, "peak_gpu_memory_bytes": None}
        yield AttemptEnded(status=Status.COMPLETED, **ends)  # type: ignore[arg-type]
        yield ShutdownEnded(wall_ns=22, exit_code=0, signal=None, overdue=False)
        yield EvaluationStarted(
            run_id=run_id,
            panel="p",
            panel_id="p1",
            panel_fields={},
            checkpoints=["m"],
            device="cpu",
            versions={},
            host="node",
            pid=1,
            wall_ns=0,
        )
        yield EvaluationEnded(status=Status.COMPLETED, **ends)  # type: ignore[arg-type]


def journal_of(root: Path, writer: int) -> Path:
    """Return where a process writes."""
    run, rank = divmod(writer, RANKS)
    return root / "rsl_rl" / "crowd" / f"run_{run:05d}" / f"journal-1-{rank}.jsonl"


def main(root: Path, count: int) -> int:
    """Start all writers at once, and wait for them."""
    gate, key = os.pipe()
    pids = []
    for writer in range(count):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(key)
                os.read(gate, 1)  # returns when the last copy of the other end is closed
                path = journal_of(root, writer)
                path.parent.mkdir(parents=True, exist_ok=True)
                with Journal(path) as journal:
                    for row in rows_of(writer):
                        journal.append(row)
                status = 0
            except BaseException:
                traceback.print_exc()
            os._exit(status)
        pids.append(pid)
    os.close(key)
    return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
