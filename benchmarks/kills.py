"""``python -m benchmarks kills``: writers killed at random times lose no row that was proven as durable."""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from benchmarks.comparison import add_json
from benchmarks.synthetic_ledger import checkpoint, declared, result, telemetry, window
from ledger_lab.errors import UserError
from ledger_lab.ledger import AttemptStarted, Journal, LedgerDamageError, Row, Status, read_journal, read_ledger
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress

_ATTEMPTS = 20
"""Attempts of a run; each is killed."""

_LONGEST_LIFE_S = 0.06
"""Latest time of the kill after the start of a writer [s]."""


@dataclass(frozen=True, kw_only=True)
class Killed:
    """State of the journal after a kill."""

    acknowledged: int
    """Durable rows that the writer reported as safe."""
    rows: int
    """Whole rows in its journal."""
    torn_bytes: int
    """Bytes of an unfinished last line."""
    trouble: str | None
    """Fault of the journal; ``None`` if it is valid."""


def bench_kills(argv: Sequence[str]) -> int:
    """Kill writers at random times, and check their journals.

    Args:
        argv: Command line without the program's name.

    Returns:
        0 if no acknowledged row is lost and every journal is valid, else 1.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks kills",
        description="Check that a journal keeps every durable row when its writer is killed. Writers of journals are "
        "killed with SIGKILL at random moments. Each writer reports over a pipe as soon as a durable row is on the "
        "disk. The benchmark then checks that the journal is valid, that it has every reported row, and that it has no "
        "rows other than the first rows of the writer. Each writer is one attempt of a run, which the ledger must show "
        "as lost. The exit status is 1 if a check fails. A kill is not a power failure: after a power failure, the "
        "result also depends on the disk.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks kills --count 100 --log_root kills",
    )
    parser.add_argument("--count", type=int, default=1000, help="Number of kills (default: 1000).")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the random moments (default: 0).")
    parser.add_argument(
        "--log_root", type=Path, help="New folder to keep the ledger in (default: the ledger is deleted)."
    )
    add_json(parser, "all counts")
    args = parser.parse_args(argv)
    if args.count < 1:
        raise UserError(f"--count {args.count}: must be at least 1")
    if args.log_root is not None and args.log_root.exists():
        raise UserError(f"--log_root {args.log_root} exists: name a new folder")

    console, moments = make_console(), random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        root = args.log_root or Path(folder)
        killed: list[Killed] = []
        with Progress(console, "kills", args.count) as progress:
            for index in range(args.count):
                killed.append(_kill_one(root, index, moments.uniform(0.0, _LONGEST_LIFE_S)))
                progress.advance(index + 1, f"{sum(each.trouble is not None for each in killed)} journals in trouble")
        statuses = _statuses(root)
    troubles = [f"writer {index}: {each.trouble}" for index, each in enumerate(killed) if each.trouble is not None]
    begun = sum(each.rows > 0 for each in killed)
    told = sum(each.acknowledged for each in killed)
    torn = sum(each.torn_bytes > 0 for each in killed)
    console.print(
        f"{len(killed)} kills, {begun} of them after the first row · {sum(each.rows for each in killed)} rows found, "
        f"{told} durable ones acknowledged · {len(troubles)} journals with lost or damaged rows, {torn} with a torn "
        f"last line · attempts: {', '.join(f'{count} {status}' for status, count in statuses.items())}",
        soft_wrap=True,
    )
    for trouble in troubles:
        console.print(trouble, style="red", markup=False, soft_wrap=True)
    write_findings(
        args.json,
        hardware=hardware_facts(),
        kills=len(killed),
        after_first_row=begun,
        rows=sum(each.rows for each in killed),
        acknowledged_rows=told,
        torn_journals=torn,
        troubles=troubles,
        statuses={str(status): count for status, count in statuses.items()},
    )
    return 1 if troubles or set(statuses) - {Status.LOST} else 0


def _kill_one(root: Path, index: int, life_s: float) -> Killed:
    """Start a writer, kill it, and look at its journal. A writer that leaves no row is no attempt."""
    run = index // _ATTEMPTS
    directory = root / "rsl_rl" / "kills" / f"run_{run:05d}"
    if not directory.exists():
        directory.mkdir(parents=True)
        with Journal(directory / "journal-0-0.jsonl") as journal:
            journal.append(declared(f"{run:08x}", run))
    attempt = sum(1 for _ in directory.iterdir())  # with the journal of the declaration
    path = directory / f"journal-{attempt}-0.jsonl"
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(readable)
        _write_until_killed(path, run, attempt, writable)
    os.close(writable)
    time.sleep(life_s)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(readable, "rb") as pipe:
        acknowledged = [int(number) for number in pipe.read().split()]
    if not os.WIFSIGNALED(status):
        raise RuntimeError(f"the writer of {path} ended by itself, with status {os.waitstatus_to_exitcode(status)}")
    killed = _look_at(path, run, attempt, pid, acknowledged)
    if killed.rows == 0 and killed.trouble is None:
        path.unlink(missing_ok=True)
    return killed


def _look_at(path: Path, run: int, attempt: int, pid: int, acknowledged: list[int]) -> Killed:
    """Compare a journal with the rows that its writer generated."""
    rows: tuple[Row, ...] = ()
    torn_bytes, trouble = 0, None
    try:
        if path.exists():
            content = read_journal(path)
            rows, torn_bytes = content.rows, content.torn_bytes
    except LedgerDamageError as error:
        trouble = str(error)
    if trouble is None and acknowledged and acknowledged[-1] >= len(rows):
        trouble = f"row {acknowledged[-1]} was acknowledged, and {len(rows)} rows are there"
    expected = itertools.islice(_rows(run, attempt, pid), len(rows))
    if trouble is None and list(rows) != list(expected):
        trouble = "the rows are not those that were written"
    return Killed(acknowledged=len(acknowledged), rows=len(rows), torn_bytes=torn_bytes, trouble=trouble)


def _write_until_killed(path: Path, run: int, attempt: int, pipe: int) -> NoReturn:
    """Write rows until the process is killed; report over the pipe which durable rows are safe."""
    try:
        with Journal(path) as journal:
            for sequence, row in enumerate(_rows(run, attempt, os.getpid())):
                journal.append(row)
                if row.DURABLE:
                    os.write(pipe, b"%d\n" % sequence)
    except BaseException:  # noqa: BLE001 - a forked process must not return into its parent's code
        traceback.print_exc()
    os._exit(1)


def _rows(run: int, attempt: int, pid: int) -> Iterator[Row]:
    """Yield rows without end: telemetry, durable rows, and sometimes a long row."""
    run_id = f"{run:08x}"
    yield AttemptStarted(run_id=run_id, attempt=attempt, rank=0, pid=pid, host=os.uname().nodename, wall_ns=1)
    for number in itertools.count(1):
        yield window(number)
        if number % 2 == 0:
            yield telemetry(number)
        if number % 3 == 0:
            yield checkpoint(number, window(number).wall_ns)
        if number % 7 == 0:
            yield result(run_id, 3 * (number // 3), run, window(number).wall_ns, last=False)  # the newest checkpoint


def _statuses(root: Path) -> Counter[Status]:
    """Read the whole ledger, check that each attempt has lasted some time, and count attempts by status."""
    attempts = [attempt for run in read_ledger(root).runs for attempt in run.attempts]
    if any(attempt.wall_ns <= 0 for attempt in attempts):
        raise RuntimeError("an attempt can't be billed: it has no age")
    return Counter(attempt.status for attempt in attempts)
