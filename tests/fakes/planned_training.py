"""A training of seconds that planned trainings start in the place of ``train.py``: no learning, but real rows.

It takes the arguments of ``train.py`` and makes ten iterations a second, with a state after each. SIGTERM ends it as it
ends a training. The override ``env.exit=STATUS`` lets it end at once, before it has a run.
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import sys
import time
from pathlib import Path

from ledger_lab.ledger import STATE_FILE, AttemptEnded, AttemptStarted, Journal, Status
from ledger_lab.ledger.liveness import identify_process
from ledger_lab.ledger.rows import StateSaved
from ledger_lab.training.launch.world import note_run, read_job
from tests.fakes.ledgers import SECOND, declared, window

ITERATION_S = 0.1


def argument(name: str, default: str | None = None) -> str:
    """Return the value of a flag."""
    words = sys.argv[1:]
    if f"--{name}" not in words:
        assert default is not None, f"--{name} is missing in {words}"
        return default
    return words[words.index(f"--{name}") + 1]


def train() -> int:
    """Train, and return the exit status."""
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda signum, frame: asked.append(signum))
    for word in sys.argv:
        if word.startswith("env.exit="):
            return int(word.partition("=")[2])
    resumed = argument("resume", "")
    # An id, as study.py names a run, or a folder. Either way, this is its folder.
    name = Path(resumed).name or f"run_{os.getpid()}_{time.time_ns()}"
    run_dir = Path(argument("log_root")) / "rsl_rl" / "e" / name
    run_dir.mkdir(parents=True, exist_ok=bool(resumed))
    attempt = 1 + len(list(run_dir.glob("journal-*-0.jsonl")))
    with Journal(run_dir / f"journal-{attempt}-0.jsonl") as journal:
        if not resumed:
            seed, cohort = int(argument("seed", "1")), argument("cohort", "none")
            journal.append(declared(name, seed=seed, cohort=cohort, max_iterations=int(argument("max_iterations"))))
        journal.append(
            AttemptStarted(
                run_id=name,
                attempt=attempt,
                rank=0,
                pid=os.getpid(),
                host=socket.gethostname(),
                process=identify_process(os.getpid()),
                job=read_job(os.environ),
                wall_ns=SECOND,
            )
        )
        note_run(os.environ, run_dir)
        iteration = int((run_dir / STATE_FILE).read_text()) if resumed else 0
        last = int((run_dir / "max_iterations").read_text()) if resumed else int(argument("max_iterations"))
        (run_dir / "max_iterations").write_text(str(last))
        print(f"attempt {attempt} trains on from iteration {iteration}", flush=True)
        while iteration < last and not asked and not (run_dir / "finish").exists():
            time.sleep(ITERATION_S)
            iteration += 1
            wall_ns = iteration * SECOND
            journal.append(window(iteration, 40 * iteration, {"learn": SECOND}, wall_ns))
            state = str(iteration).encode()
            (run_dir / f"{STATE_FILE}.new").write_bytes(state)
            (run_dir / f"{STATE_FILE}.new").replace(run_dir / STATE_FILE)
            journal.append(
                StateSaved(
                    sha256=hashlib.sha256(state).hexdigest(),
                    size_bytes=len(state),
                    iteration=iteration,
                    env_steps=40 * iteration,
                    wall_ns=wall_ns,
                )
            )
        journal.append(
            AttemptEnded(
                status=Status.PREEMPTED if asked else Status.COMPLETED,
                reason=None,
                wall_ns=iteration * SECOND,
                peak_host_memory_bytes=None,
                peak_gpu_memory_bytes=None,
            )
        )
    return 75 if asked else 0


if __name__ == "__main__":
    sys.exit(train())
