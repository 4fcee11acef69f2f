"""Work that does something bad, under a supervisor, and what its ledger says of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from ledger_lab.ledger import Attempt, Run, read_ledger

ROOT = Path(__file__).parents[2]


@contextmanager
def worker(run_dir: Path, how: str, *limits: str, prefix: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    """Start the fake worker; nothing of it is left in the end."""
    command = [*prefix, sys.executable, str(ROOT / "tests" / "fakes" / "worker.py"), str(run_dir), how, *limits]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        for each in [*psutil.Process(process.pid).children(recursive=True), process] if process.poll() is None else []:
            each.kill()
        process.communicate()


def run_of(run_dir: Path) -> Run:
    """Return the one run in a directory."""
    (run,) = read_ledger(run_dir).runs
    return run


def attempt_of(run_dir: Path) -> Attempt:
    """Return its one attempt, whose end is written at most once."""
    (attempt,) = run_of(run_dir).attempts
    return attempt
