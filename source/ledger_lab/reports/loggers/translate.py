"""Translates the rows of a run into the points of dashboards."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Health,
    JournalContent,
    PanelResult,
    PhaseWindow,
    Row,
    Run,
    Telemetry,
)
from ledger_lab.ledger.listing import COMPRESSED
from ledger_lab.ledger.meters.phases import LOOP_PHASES, TRAINING_PHASES
from ledger_lab.reports.loggers.sink import Axis, Batch, Point
from ledger_lab.units import in_gigabytes


@dataclass(frozen=True)
class Entry:
    """A row, and its place in a journal."""

    journal: str
    """Name of its journal, also if the file is compressed."""
    attempt: int
    """The attempt that its journal belongs to."""
    sequence: int
    """Its place there, from 0."""
    time: datetime
    row: Row


def entries_of(run: Run) -> Iterator[Entry]:
    """Yield the rows that are sent: of each attempt, the first process's, its supervisor's, and its telemetry.

    They are in order of time, attempt by attempt, with each journal in its own order.

    Args:
        run: The run.
    """
    for attempt in run.attempts:
        first = (*attempt.ranks[:1], *attempt.supervisions[:1], *attempt.telemetries[:1])
        yield from heapq.merge(*(_entries(each, attempt.number) for each in first), key=attrgetter("time"))


def _entries(journal: JournalContent, attempt: int) -> Iterator[Entry]:
    """Yield the rows of a journal."""
    name = journal.path.name.removesuffix(COMPRESSED)
    return (Entry(name, attempt, place, time, row) for place, (row, time) in enumerate(journal.stream()))


class Translator:
    """Translates the rows of one run. It needs all rows in order, including rows that were sent before."""

    def __init__(self) -> None:
        """Start without any row."""
        self._iteration = self._env_steps = 0
        self._over: int | None = None
        self._spent_ns: Counter[str] = Counter()
        self._wall_ns: dict[int, int] = {}
        self._saved_at: dict[str, int] = {}

    def translate(self, entries: Sequence[Entry], has: Mapping[str, int]) -> Batch:
        """Return the points for a destination.

        Args:
            entries: The next rows.
            has: Number of rows of each journal that the destination has already; these are left out.
        """
        points, cursor = [], dict(has)
        for entry in entries:
            point = self._point(entry)
            if entry.sequence >= has.get(entry.journal, 0):
                cursor[entry.journal] = entry.sequence + 1
                points += [] if point is None else [point]
        return Batch(tuple(points), cursor)

    def _point(self, entry: Entry) -> Point | None:
        """Translate one row; ``None`` if dashboards do not show it."""
        row = entry.row
        axis: Axis = "iteration"
        step: int | None = None
        values: dict[str, float] = {}
        notes: dict[str, str] = {}
        match row:
            case PhaseWindow():
                values = self._window(row, self._age_s(entry, row.wall_ns))
            case Telemetry():
                axis, step, values = "wall_s", int(self._age_s(entry, row.wall_ns)), _telemetry(row)
            case PanelResult():
                values, notes = _score(row)
                step = self._saved_at.get(row.checkpoint)
            case CheckpointSaved():
                self._saved_at[row.path] = row.iteration
                notes["checkpoint/last"] = f"{row.path} (iteration {row.iteration}, sha256 {row.sha256})"
            case Health():
                notes[f"health/{row.event}"] = f"iteration {row.iteration}: {row.evidence} Advice: {row.advice}"
            case AttemptStarted():
                self._age_s(entry, row.wall_ns)
                self._over = None  # an attempt may repeat the last iteration of the previous attempt
                notes["attempt"] = f"{row.attempt} on {row.host}"
            case AttemptEnded():
                values = self._totals(row, self._age_s(entry, row.wall_ns))
                notes = {} if row.reason is None else {"reason": row.reason}
        if not values and not notes:
            return None
        return Point(entry.time, axis, self._iteration if step is None else step, values, notes)

    def _age_s(self, entry: Entry, wall_ns: int) -> float:
        """Return the time that the run had taken in all attempts when a row was written [s]."""
        self._wall_ns[entry.attempt] = max(wall_ns, self._wall_ns.get(entry.attempt, 0))
        return (wall_ns + sum(spent for number, spent in self._wall_ns.items() if number < entry.attempt)) / 1e9

    def _window(self, row: PhaseWindow, age_s: float) -> dict[str, float]:
        """Return figures and phases of an iteration."""
        self._spent_ns.update(row.phase_ns)
        if row.iteration is None or row.iteration == self._over:
            return {}  # outside the training loop, or after its last iteration
        self._over = self._iteration = row.iteration
        steps, self._env_steps = row.env_steps - self._env_steps, row.env_steps
        training_s, loop_s = (
            sum(ns for phase, ns in row.phase_ns.items() if phase in phases) / 1e9
            for phases in (TRAINING_PHASES, LOOP_PHASES)
        )
        values = {f"train/{name}": value for name, value in row.figures.items()}
        values |= {f"phase/{name}_s": spent_ns / 1e9 for name, spent_ns in row.phase_ns.items()}
        values |= {"train/env_steps": float(row.env_steps), "train/wall_s": age_s}
        if training_s > 0 and steps > 0:
            values["train/env_steps_per_s"] = steps / training_s
            values["train/env_steps_per_wall_s"] = steps / loop_s
        return values

    def _totals(self, row: AttemptEnded, age_s: float) -> dict[str, float]:
        """Return the time per phase of all attempts so far, and the peaks of memory of an attempt that ended."""
        peaks = {"host": row.peak_host_memory_bytes, "gpu": row.peak_gpu_memory_bytes}
        values = {f"total/{phase}_s": spent_ns / 1e9 for phase, spent_ns in self._spent_ns.items()}
        values |= {f"total/peak_{name}_memory_gb": peak / 1e9 for name, peak in peaks.items() if peak is not None}
        return {**values, "total/wall_s": age_s}


def _score(row: PanelResult) -> tuple[dict[str, float], dict[str, str]]:
    """Return a held-out score, as figures and in words; without figures if it is invalid."""
    successes, episodes = row.outcomes.successes, row.outcomes.episodes
    needed = "" if row.needed is None else f", {row.needed} needed"
    said = f"{row.checkpoint}: {successes} of {episodes}{needed}"
    if row.invalid is not None:
        return {}, {f"heldout/{row.purpose}": f"{said}; invalid: {row.invalid}"}
    values = {"success": successes / episodes, "wall_s": row.wall_ns / 1e9}
    return {f"heldout/{row.purpose}_{name}": value for name, value in values.items()}, {f"heldout/{row.purpose}": said}


def _telemetry(row: Telemetry) -> dict[str, float]:
    """Return the figures of a sample that were measured."""
    values: dict[str, float | None] = {}
    if (host := row.host) is not None:
        values |= {
            "host_cpu_s": host.cpu_s,
            "host_busiest_thread": host.busiest_thread,
            "host_memory_gb": host.memory_bytes / 1e9,
            "host_available_gb": host.available_bytes / 1e9,
        }
    for index, device in enumerate(row.devices):
        values |= {
            f"gpu{index}_utilization": device.utilization,
            f"gpu{index}_memory_gb": in_gigabytes(device.memory_used_bytes),
            f"gpu{index}_power_w": device.power_w,
            f"gpu{index}_temperature_c": device.temperature_c,
            f"gpu{index}_sm_clock_mhz": device.sm_clock_mhz,
        }
    return {f"telemetry/{name}": float(value) for name, value in values.items() if value is not None}
