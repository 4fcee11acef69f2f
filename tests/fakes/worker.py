"""A program that works under supervision on an attempt without a simulation, and ends as it is told to.

Usage: ``python tests/fakes/worker.py DIRECTORY HOW [GRACE_S SHUTDOWN_S [ITS_OWN_GRACE_S]]``. ``start`` never begins.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ledgers import declared  # run as a script, this folder is on the path

from ledger_lab.errors import UserError
from ledger_lab.ledger import AttemptStarted, Journal, Status
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.training.supervision import journals
from ledger_lab.training.supervision.attempt import Begin, Link, attempt_life
from ledger_lab.training.supervision.start import run_supervised
from ledger_lab.training.writer import AttemptWriter


def wait() -> None:
    """Work until somebody ends it."""
    print("working", flush=True)
    while True:
        time.sleep(0.05)


def simulate(clock: PhaseClock) -> None:
    """Simulate in many short windows until somebody ends it."""
    print("working", flush=True)
    while True:
        with clock.window(Phase.SIMULATE):
            time.sleep(0.01)


def be_killed_for_memory() -> None:
    """Take memory until the kernel ends it; the control group it is in must be a small one."""
    hoard = []
    while True:
        hoard.append(bytearray(os.urandom(1 << 20)))


def fill_the_disk() -> None:
    """Write a checkpoint that has no room."""
    with open(Path(sys.argv[1]) / "model.pt", "wb") as file:
        while True:
            file.write(bytes(1 << 16))


def tell_a_secret() -> None:
    """Print what nobody may know, and have no time to take it back."""
    (Path(sys.argv[1]) / "console.log").write_text("connecting with api_key=correct-horse-battery\n")
    os.kill(os.getpid(), signal.SIGKILL)


def wait_deaf() -> None:
    """Hear no signal that can be ignored."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)
    wait()


def hang_in_the_end() -> None:
    """Never go."""
    atexit.register(time.sleep, 3600)


def crash_in_the_end() -> None:
    """Go by a fault."""
    atexit.register(os.kill, os.getpid(), signal.SIGSEGV)


def ask_the_terminal() -> None:
    """Write to it, and wait for an answer."""
    print("working", repr(sys.stdin.readline()), flush=True)


def fail() -> None:
    """Raise what nobody foresaw."""
    raise RuntimeError("banana")


def refuse() -> None:
    """Find a mistake in the request."""
    (Path(sys.argv[1]) / "params").mkdir()
    raise UserError("panel p: mixes environments")


HOW: dict[str, Callable[[], object]] = {
    "complete": lambda: None,
    "ask_the_terminal": ask_the_terminal,
    "fail": fail,
    "refuse": refuse,
    "killed_for_memory": be_killed_for_memory,
    "disk_full": fill_the_disk,
    "wait": wait,
    "wait_deaf": wait_deaf,
    "tell_a_secret": tell_a_secret,
    "real_time": lambda: os.kill(os.getpid(), signal.SIGRTMIN + 3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "vanish": lambda: os._exit(7),
    "hang_in_the_end": hang_in_the_end,
    "crash_in_the_end": crash_in_the_end,
}


def main(argv: Sequence[str], started_ns: int, link: Link) -> None:
    """Make an attempt of it."""
    if argv[1] == "start":
        wait()
    run_dir, clock = Path(argv[0]), PhaseClock(started_ns, suspended_ns=link.suspensions.suspended_ns)
    begin = Begin(
        journals={run_dir / "journal-1-supervisor.jsonl": "aaaaaaaa"},
        attempt=1,
        device="cpu",
        log=run_dir / "console.log",
        grace_s=float(next(iter(argv[4:] or argv[2:3]), 20)),
    )
    with Journal(run_dir / "journal-1-0.jsonl", lambda error: print(f"trouble: {error}", flush=True)) as journal:
        journal.append(declared("aaaaaaaa"))
        journal.append(
            AttemptStarted(
                run_id="aaaaaaaa",
                attempt=1,
                rank=0,
                pid=os.getpid(),
                host=socket.gethostname(),
                wall_ns=clock.wall_ns(),
            )
        )
        with attempt_life(AttemptWriter(journal.append, clock), link, begin, lambda: None) as attempt:
            clock.set_base(Phase.UNATTRIBUTED)
            if argv[1] == "refuse_late":
                attempt.begin()
            if argv[1] == "simulate":
                simulate(clock)
            HOW[argv[1].removesuffix("_late")]()
            attempt.status = Status.COMPLETED
        sys.exit(attempt.exit_status)


def report(run_dir: Path) -> None:
    """Print the last row of the supervisor."""
    last = (run_dir / "journal-1-supervisor.jsonl").read_bytes().splitlines()[-1]
    with suppress(OSError):  # the terminal may be gone
        os.write(1, f"last row: {json.loads(last)['kind']}\n".encode())


if __name__ == "__main__":
    journals._RETRY_S = 0.05  # as often as always, but within a second
    grace_s, shutdown_s = map(float, sys.argv[3:5]) if len(sys.argv) > 3 else (20.0, 60.0)
    run_supervised(main, grace_s=grace_s, shutdown_s=shutdown_s, report=report)
