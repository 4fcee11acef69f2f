"""``python -m benchmarks load``: many concurrent writers, some of them killed, while readers read all the time."""

from __future__ import annotations

import argparse
import math
import os
import random
import select
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.comparison import add_json
from benchmarks.load_readers import Reading, Truth, read_while
from benchmarks.load_writers import CHECKPOINT_EVERY, ENDINGS, Deadline, Told, read_notes, start_writer, warm_up
from ledger_lab.cli.doctor import file_system
from ledger_lab.errors import UserError
from ledger_lab.ledger import CheckpointSaved, PanelResult, Run, Status, read_ledger
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress

_LOOK_S = 0.1
"""Longest wait for reports of writers [s]."""
_MEMORY_S = 120.0
"""Time between two samples of the memory of all writers [s]."""
_EARLIEST, _LATEST = 0.1, 0.9
"""First and last moment of a kill, as a share of the time."""


@dataclass
class _Writer:
    """A fake trainer, as its parent knows it."""

    number: int
    pid: int
    ending: Status
    told: Counter[Told] = field(default_factory=Counter)
    """How many of each the run has written, by its own reports."""
    killed_s: float | None = None
    """When it was killed, by the monotonic clock [s]."""
    reaped: bool = False
    exit_status: int | None = None


class _Crowd:
    """All writers, and the truth about them."""

    def __init__(self, root: Path, count: int, period_s: float) -> None:
        """Start the writers.

        Args:
            root: Root of the ledger.
            count: Number of writers.
            period_s: Mean time of an iteration [s].
        """
        self.deadline = Deadline()
        """When all writers end; the caller sets it."""
        warm_up()
        self._pipe, write_end = os.pipe()
        os.set_blocking(self._pipe, False)
        self.writers: list[_Writer] = []
        try:
            for number in range(count):
                ending = ENDINGS[number % len(ENDINGS)]
                pid = start_writer(root, number, ending, self.deadline, period_s, write_end)
                self.writers.append(_Writer(number, pid, ending))
        finally:
            os.close(write_end)

    @property
    def alive(self) -> list[_Writer]:
        """Writers that were neither killed nor have ended."""
        return [each for each in self.writers if each.killed_s is None and not each.reaped]

    def look(self, wait_s: float = _LOOK_S) -> None:
        """Take the reports of writers, and collect those that have ended."""
        select.select([self._pipe], [], [], wait_s)
        for note in read_notes(self._pipe):
            self.writers[note.writer].told[note.told] = note.number
        for each in self.writers:
            if not each.reaped and (found := os.waitpid(each.pid, os.WNOHANG))[0]:
                each.reaped, each.exit_status = True, os.waitstatus_to_exitcode(found[1])

    def kill(self, chance: random.Random) -> None:
        """Kill a writer that has begun, unless all writers are ending already."""
        candidates = [each for each in self.alive if each.told[Told.BEGUN]]
        if candidates and not self.deadline.is_over:
            victim = chance.choice(candidates)
            os.kill(victim.pid, signal.SIGKILL)
            victim.killed_s = time.monotonic()

    def truth(self) -> Truth:
        """Return what a reader of the ledger may find at this moment."""
        return Truth(
            begun=frozenset(each.number for each in self.writers if each.told[Told.BEGUN]),
            killed=frozenset(each.number for each in self.writers if each.killed_s is not None),
            gone=frozenset(each.number for each in self.writers if each.killed_s is not None and each.reaped),
            ended={each.number: each.ending for each in self.writers if each.told[Told.ENDED]},
            ending={each.number: each.ending for each in self.writers} if self.deadline.is_over else {},
        )

    def memory_bytes(self) -> int:
        """Return the memory of all writers; a page that several processes share counts once."""
        total = 0
        for each in self.alive:
            try:
                for line in Path(f"/proc/{each.pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
                    total += 1024 * int(line.split()[1]) if line.startswith("Pss:") else 0
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
        return total

    def close(self) -> None:
        """End every writer that still runs."""
        for each in self.writers:
            if not each.reaped:
                os.kill(each.pid, signal.SIGKILL)
                os.waitpid(each.pid, 0)
                each.reaped = True
        os.close(self._pipe)


def bench_load(argv: Sequence[str]) -> int:
    """Let many processes write into one ledger, kill some of them, read all the time, and check what is found.

    Args:
        argv: Command line without the program's name.

    Returns:
        0 if nothing durable is lost, every attempt has its true status, and no reading found damage; else 1.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks load",
        description="Check one ledger under load. Many processes, each a small fake trainer, write rows through the "
        "recording API at the same time: iterations, checkpoints and scores. Some of them are killed with SIGKILL at "
        "random moments. Meanwhile, scripts/report.py and scripts/verify_ledger.py read the ledger in turns. Each "
        "writer reports over a pipe as soon as a call of the recording API has returned. At the end, the benchmark "
        "checks that every reported row is in the ledger, and that every attempt has exactly one status, the true "
        "one: lost for a killed writer, and for the others how they ended. It checks the statuses of each reading, "
        "too, and that no reading found damage. The exit status is 1 if a check fails.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks load --writers 20 --minutes 1 --kills 5 --folder /shared/me",
    )
    parser.add_argument("--writers", type=int, default=200, help="Number of concurrent writers (default: 200).")
    parser.add_argument("--minutes", type=float, default=10.0, help="Time for which they write (default: 10).")
    parser.add_argument("--kills", type=int, default=20, help="Number of writers to kill (default: 20).")
    parser.add_argument(
        "--period_s", type=float, default=0.5, help="Mean time of an iteration of a writer [s] (default: 0.5)."
    )
    parser.add_argument("--seed", type=int, default=0, help="Seed of the moments and the victims (default: 0).")
    parser.add_argument(
        "--folder", type=Path, help="Folder to write to, on the file system to check (default: a temporary folder)."
    )
    add_json(parser, "all counts")
    args = parser.parse_args(argv)
    _check(args)

    console = make_console()
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="bench-load-") as name:
        root = Path(name) / "ledger"
        root.mkdir()
        disk = file_system(root)
        crowd, readings, memory = _write_and_read(root, Path(name), args)
        found, troubles = _final_state(root, crowd.writers)
    troubles = [trouble for each in readings for trouble in each.troubles] + troubles
    console.print(
        f"{args.writers} writers, {found['killed']} of them killed · {found['rows']} rows, {found['durable_reported']} "
        f"durable ones reported, {found['durable_lost']} lost · attempts: "
        f"{', '.join(f'{count} {status}' for status, count in found['statuses'].items())} · {len(readings)} readings · "
        f"memory of all writers: {memory / 1e9:.2f} GB",
        soft_wrap=True,
    )
    for line in _reading_lines(readings):
        console.print(line, soft_wrap=True)
    for trouble in troubles:
        console.print(trouble, style="red", markup=False, soft_wrap=True)
    write_findings(
        args.json,
        hardware=hardware_facts(),
        filesystem=disk,
        load_average=os.getloadavg(),
        writers=args.writers,
        minutes=args.minutes,
        **found,
        writers_memory_bytes=memory,
        readings=[_summary(program, readings) for program in sorted({each.program for each in readings})],
        troubles=troubles,
    )
    return 1 if troubles else 0


def _check(args: argparse.Namespace) -> None:
    """Check the arguments.

    Raises:
        UserError: If one makes no sense.
    """
    if not 1 <= args.writers <= 10_000:
        raise UserError(f"--writers {args.writers}: must be from 1 to 10000")
    if not 0 <= args.kills <= args.writers:
        raise UserError(f"--kills {args.kills}: must be from 0 to the number of writers")
    if not 0 < args.minutes <= 24 * 60 or not 0 < args.period_s <= 60:
        raise UserError("--minutes must be above 0 and at most 1440, and --period_s above 0 and at most 60")
    if args.folder is not None and not args.folder.is_dir():
        raise UserError(f"--folder {args.folder} is not a folder: name another folder")


def _write_and_read(root: Path, scratch: Path, args: argparse.Namespace) -> tuple[_Crowd, list[Reading], int]:
    """Let the writers write until all have ended, kill some, and read meanwhile.

    Returns:
        The writers, the readings, and the largest memory of all writers together [B].
    """
    chance, duration_s = random.Random(args.seed), 60.0 * args.minutes
    kills_s = sorted(duration_s * chance.uniform(_EARLIEST, _LATEST) for _ in range(args.kills))
    began_s, memory, memory_s = math.inf, 0, 0.0
    readings: list[Reading] = []
    with (
        _started(root, args) as crowd,
        closing(read_while(root, scratch, crowd.truth)) as readers,
        Progress(make_console(), "seconds of writing", math.ceil(duration_s)) as progress,
    ):
        while not all(each.reaped for each in crowd.writers):
            crowd.look()
            now_s = time.monotonic()
            if math.isinf(began_s) and all(each.told[Told.BEGUN] or each.reaped for each in crowd.writers):
                began_s = now_s
                crowd.deadline.set(began_s + duration_s)
            while kills_s and began_s + kills_s[0] <= now_s:
                kills_s.pop(0)
                crowd.kill(chance)
            if now_s >= memory_s:
                memory, memory_s = max(memory, crowd.memory_bytes()), now_s + _MEMORY_S
            if (reading := next(readers)) is not None:
                readings.append(reading)
            progress.advance(min(int(max(0.0, now_s - began_s)), math.ceil(duration_s)), f"{len(readings)} readings")
        readings += _last_readings(readers, crowd)
    return crowd, readings, memory


@contextmanager
def _started(root: Path, args: argparse.Namespace) -> Iterator[_Crowd]:
    """Start the writers; in the end, none is left."""
    crowd = _Crowd(root, args.writers, args.period_s)
    try:
        yield crowd
    finally:
        crowd.close()


def _last_readings(readers: Iterator[Reading | None], crowd: _Crowd) -> list[Reading]:
    """Return the reading that is under way, and one more by each program, now that all writers have ended."""
    found: list[Reading] = []
    crowd.look(0.0)
    while len(found) < 3:
        if (reading := next(readers)) is not None:
            found.append(reading)
        time.sleep(_LOOK_S)
    return found


def _final_state(root: Path, writers: Sequence[_Writer]) -> tuple[dict[str, Any], list[str]]:
    """Compare the ledger with what the writers have reported.

    Returns:
        Counts by their names, and what is wrong.
    """
    ledger = read_ledger(root, tolerate_damage=True)
    troubles = [f"damaged: {damage}" for damage in ledger.damage]
    by_writer = {run.declared.seed: run for run in ledger.runs}
    lost, statuses = 0, Counter[Status]()
    for each in writers:
        run = by_writer.get(each.number)
        if run is None:
            if each.told:
                troubles.append(f"writer {each.number}: its run is not in the ledger")
                lost += sum(each.told[told] for told in (Told.BEGUN, Told.CHECKPOINT, Told.SCORE, Told.ENDED))
            continue
        for told, count in _counts(run).items():
            if missing := max(0, each.told[told] - count):
                lost += missing if told is not Told.ITERATION else 0
                troubles.append(f"writer {each.number}: {missing} rows are lost: {told.name.lower()}")
        expected = Status.LOST if each.killed_s is not None else each.ending
        if (found := [attempt.status for attempt in run.attempts]) != [expected]:
            troubles.append(f"writer {each.number}: its attempts are {', '.join(found)}, and it was {expected}")
        if each.killed_s is None and each.exit_status != 0:
            troubles.append(f"writer {each.number} failed: exit status {each.exit_status}")
        statuses.update(found)
    durable = sum(each.told[told] for each in writers for told in (Told.BEGUN, Told.CHECKPOINT, Told.SCORE, Told.ENDED))
    counts = {
        "killed": sum(each.killed_s is not None for each in writers),
        "rows": sum(run.rows for run in ledger.runs),
        "iterations_reported": sum(each.told[Told.ITERATION] for each in writers),
        "durable_reported": durable,
        "durable_lost": lost,
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "checkpoint_every": CHECKPOINT_EVERY,
    }
    return counts, troubles


def _counts(run: Run) -> dict[Told, int]:
    """Return how many rows of each kind a run has."""
    attempt = run.attempts[0]
    return {
        Told.BEGUN: int(attempt.first_start is not None),
        Told.ITERATION: attempt.sums.iterations,
        Told.CHECKPOINT: len(attempt.of(CheckpointSaved)),
        Told.SCORE: len(attempt.of(PanelResult)),
        Told.ENDED: int(attempt.ended is not None),
    }


def _summary(program: str, readings: Sequence[Reading]) -> dict[str, Any]:
    """Return figures of all readings by one program."""
    own = [each for each in readings if each.program == program]
    return {
        "program": program,
        "readings": len(own),
        "troubles": sum(len(each.troubles) for each in own),
        "median_wall_s": statistics.median(each.wall_s for each in own),
        "longest_wall_s": max(each.wall_s for each in own),
        "last": asdict(own[-1]),
        "peak_memory_bytes": max(each.peak_memory_bytes for each in own),
    }


def _reading_lines(readings: Sequence[Reading]) -> list[str]:
    """Return a line about the readings by each program."""
    found = (_summary(program, readings) for program in sorted({each.program for each in readings}))
    return [
        f"{each['program']}: {each['readings']} readings, {each['troubles']} troubles, {each['median_wall_s']:.1f} s "
        f"(median), {each['longest_wall_s']:.1f} s (longest), {each['peak_memory_bytes'] / 1e6:.0f} MB"
        for each in found
    ]
