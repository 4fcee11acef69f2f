"""Fake trainers, which write real rows through the recording API, for ``python -m benchmarks load``."""

from __future__ import annotations

import itertools
import math
import mmap
import os
import random
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple, NoReturn

from ledger_lab.files import whole_file
from ledger_lab.ledger import CheckpointSaved, Outcomes, Status
from ledger_lab.ledger.costs.prices import load_price_book
from ledger_lab.ledger.meters.host import package_versions
from ledger_lab.ledger.redaction import Redactor
from ledger_lab.panels import VerdictRule
from ledger_lab.training.recording import RecordedPanel, RecordedRun, record_run

EPISODES = 128
"""Held-out episodes of a panel."""

CHECKPOINT_EVERY = 20
"""Iterations between two checkpoints."""

_TARGET = 0.9
_PANEL = RecordedPanel("load", seeds=range(EPISODES), definition={})
_CHECKPOINT_BYTES = 4096
_ENV_STEPS = 1024
_NOTE = struct.Struct("<HBI")

ENDINGS = (Status.TARGET_REACHED, Status.COMPLETED, Status.CRASHED, Status.PREEMPTED)
"""How fake trainers end, in turn."""


class Told(IntEnum):
    """What a fake trainer reports after the call of the recording API has returned."""

    BEGUN = 0
    """The run is declared, and its attempt has begun."""
    ITERATION = 1
    CHECKPOINT = 2
    SCORE = 3
    ENDED = 4
    """The end is written."""


Tell = Callable[[Told, int], None]
"""Reports how many of something a run has written."""


class Note(NamedTuple):
    """One report."""

    writer: int
    told: Told
    number: int
    """How many of them the run has written."""


def read_notes(pipe: int) -> Iterator[Note]:
    """Yield the reports that wait in a pipe, which never blocks.

    Args:
        pipe: Its end for reading.
    """
    while True:
        try:
            data = os.read(pipe, 1024 * _NOTE.size)  # whole reports: the system writes each of them at once
        except BlockingIOError:
            return
        if not data:
            return
        for writer, told, number in _NOTE.iter_unpack(data):
            yield Note(writer, Told(told), number)


class Deadline:
    """The moment when all fake trainers end, in memory that they share with their parent."""

    def __init__(self) -> None:
        """Begin without a deadline."""
        self._memory = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("d")
        self._memory[0] = math.inf

    def set(self, moment_s: float) -> None:
        """Set it, by the monotonic clock [s]."""
        self._memory[0] = moment_s

    @property
    def is_over(self) -> bool:
        """Whether it has come."""
        return time.monotonic() >= self._memory[0]


def warm_up() -> None:
    """Import and compute what all fake trainers need, so that they share it in memory and start quickly."""
    Redactor()
    VerdictRule(_TARGET).is_decidable(EPISODES)
    load_price_book(None)
    package_versions()


def start_writer(root: Path, writer: int, ending: Status, deadline: Deadline, period_s: float, pipe: int) -> int:
    """Fork a fake trainer.

    Args:
        root: Root of the ledger.
        writer: Its number, which is also the training seed of its run.
        ending: How it ends.
        deadline: When it ends.
        period_s: Mean time of an iteration [s].
        pipe: Where it reports what is written.

    Returns:
        Its process id.
    """
    pid = os.fork()
    if pid == 0:
        _become_writer(root, writer, ending, deadline, period_s, pipe)
    return pid


def _become_writer(root: Path, writer: int, ending: Status, deadline: Deadline, period_s: float, pipe: int) -> NoReturn:
    """Train, and end the process."""
    status = 1
    try:
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.default_int_handler if signum is signal.SIGINT else signal.SIG_DFL)
        sys.argv = [f"writer-{writer}"]

        def tell(told: Told, count: int) -> None:
            os.write(pipe, _NOTE.pack(writer, told, count))

        try:
            _train(root, writer, ending, deadline, period_s, tell)
        except _PlannedError:
            pass
        except SystemExit:
            if ending is not Status.PREEMPTED:
                raise
        tell(Told.ENDED, 1)
        status = 0
    except BaseException:  # noqa: BLE001 - a forked process must not return into its parent's code
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


class _PlannedError(RuntimeError):
    """A fake trainer that is to crash has crashed."""


def _train(root: Path, writer: int, ending: Status, deadline: Deadline, period_s: float, tell: Tell) -> None:
    """Write a run until the deadline."""
    chance = random.Random(writer)
    with record_run(
        task="Load",
        library="load",
        panel=_PANEL,
        target_success=_TARGET,
        seed=writer,
        device="cpu",
        num_envs=8,
        horizon=_ENV_STEPS // 8,
        max_iterations=1_000_000,
        cohort="load",
        usd_per_hour=1.0,
        log_root=root,
        since_process_start=False,
    ) as run:
        tell(Told.BEGUN, 1)
        checkpoints = 0
        for iteration in itertools.count(1):
            with run.phase("simulate"):
                time.sleep(period_s * chance.uniform(0.5, 1.5))
            run.iteration(iteration, env_steps=iteration * _ENV_STEPS, figures={"mean_return": chance.gauss(100, 10)})
            tell(Told.ITERATION, iteration)
            is_last = deadline.is_over
            if iteration % CHECKPOINT_EVERY and not is_last:
                continue
            saved = _save(run, iteration, chance)
            checkpoints += 1
            tell(Told.CHECKPOINT, checkpoints)
            succeeds = is_last and ending is Status.TARGET_REACHED
            scores = run.judge(saved, lambda seeds: _outcomes(seeds, succeeds))  # noqa: B023 - called at once
            tell(Told.SCORE, checkpoints + len(scores) - 1)
            if is_last:
                break
        if ending is Status.CRASHED:
            raise _PlannedError("as planned")
        elif ending is Status.PREEMPTED:
            os.kill(os.getpid(), signal.SIGTERM)


def _save(run: RecordedRun, iteration: int, chance: random.Random) -> CheckpointSaved:
    """Save a policy."""
    with run.phase("checkpoint"), whole_file(run.directory / f"model_{iteration}.pt") as unfinished:
        unfinished.write_bytes(chance.randbytes(_CHECKPOINT_BYTES))
    return run.checkpoint(run.directory / f"model_{iteration}.pt")


def _outcomes(seeds: Sequence[int], successful: bool) -> Outcomes:
    """Return the outcomes of episodes: all succeed, or every second one."""
    episodes = len(seeds)
    won = [successful or index % 2 == 0 for index in range(episodes)]
    return Outcomes(
        cell=["nominal"] * episodes,
        seed=list(seeds),
        success=won,
        success_any=won,
        steps=[300 if each else 20 for each in won],
        episode_return=[1.0 if each else 0.0 for each in won],
        ended_by=["horizon" if each else "fell" for each in won],
        fingerprint=[f"{seed:016x}" for seed in seeds],
    )
