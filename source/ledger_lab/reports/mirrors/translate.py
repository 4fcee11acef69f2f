"""Translates rows into the points and notes of dashboards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Health,
    PanelResult,
    PhaseWindow,
    Telemetry,
)
from ledger_lab.ledger.meters import LOOP_PHASES, TRAINING_PHASES
from ledger_lab.reports.mirrors.follow import JournalEntry
from ledger_lab.reports.mirrors.sink import Batch, Point


class Translator:
    """Translates the rows of one run. It needs all rows in order, including rows that were sent before."""

    def __init__(self) -> None:
        """Start without any row."""
        self._iteration = self._env_steps = 0
        self._over: int | None = None
        self._spent_ns: Counter[str] = Counter()
        self._wall_ns: dict[int, int] = {}
        self._saved_at: dict[str, int] = {}
        self._cursor: dict[str, int] = {}

    def translate(self, entries: Sequence[JournalEntry], has: dict[str, int]) -> Batch:
        """Return the points and notes for a destination.

        Args:
            entries: Rows since the last call.
            has: Number of rows of each journal that the destination has already; these are left out.
        """
        points: list[Point] = []
        notes: dict[str, str] = {}
        for entry in entries:
            found, said = self._translated(entry)
            self._cursor[entry.journal] = entry.sequence + 1
            if entry.sequence >= has.get(entry.journal, 0):
                points += found
                notes.update(said)
        cursor = {**has, **{name: max(rows, has.get(name, 0)) for name, rows in self._cursor.items()}}
        return Batch(tuple(points), notes, cursor)

    def _translated(self, entry: JournalEntry) -> tuple[list[Point], dict[str, str]]:
        """Translate one row."""
        row = entry.row
        if isinstance(row, AttemptStarted | PhaseWindow | Telemetry | AttemptEnded):
            self._wall_ns[entry.attempt] = max(row.wall_ns, self._wall_ns.get(entry.attempt, 0))
        match row:
            case PhaseWindow():
                return self._window(entry, row), {}
            case Telemetry():
                return _telemetry(entry, row, self._age_ns(entry, row)), {}
            case PanelResult():
                return self._result(entry, row)
            case CheckpointSaved():
                self._saved_at[row.path] = row.iteration
                return [], {"checkpoint/last": f"{row.path} (iteration {row.iteration}, sha256 {row.sha256})"}
            case Health():
                return [], {f"health/{row.event}": f"iteration {row.iteration}: {row.evidence} Advice: {row.advice}"}
            case AttemptStarted():
                self._over = None  # an attempt may repeat the last iteration of the previous attempt
                return [], {"attempt": f"{row.attempt} on {row.host}"}
            case AttemptEnded():
                return self._end(entry, row)
            case _:
                return [], {}

    def _age_ns(self, entry: JournalEntry, row: PhaseWindow | Telemetry | AttemptEnded) -> int:
        """Return the time that the run had taken in all attempts when a row was written [ns]."""
        return row.wall_ns + sum(wall_ns for number, wall_ns in self._wall_ns.items() if number < entry.attempt)

    def _window(self, entry: JournalEntry, row: PhaseWindow) -> list[Point]:
        """Return figures and phases of an iteration."""
        self._spent_ns.update(row.phase_ns)
        if row.iteration is None or row.iteration == self._over:
            return []  # outside the training loop, or after its last iteration
        self._over = row.iteration
        steps, self._env_steps = row.env_steps - self._env_steps, row.env_steps
        self._iteration = row.iteration
        training_s, loop_s = (
            sum(ns for phase, ns in row.phase_ns.items() if phase in phases) / 1e9
            for phases in (TRAINING_PHASES, LOOP_PHASES)
        )
        values = {f"train/{name}": value for name, value in row.figures.items()}
        values |= {f"phase/{name}_s": spent_ns / 1e9 for name, spent_ns in row.phase_ns.items()}
        values |= {"train/env_steps": float(row.env_steps), "train/wall_s": self._age_ns(entry, row) / 1e9}
        if training_s > 0 and steps > 0:
            values["train/env_steps_per_s"] = steps / training_s
            values["train/env_steps_per_wall_s"] = steps / loop_s
        return [Point(entry.time, "iteration", row.iteration, values)]

    def _result(self, entry: JournalEntry, row: PanelResult) -> tuple[list[Point], dict[str, str]]:
        """Return a held-out score."""
        successes, episodes = row.outcomes.successes, row.outcomes.episodes
        needed = "" if row.needed is None else f", {row.needed} needed"
        said = f"{row.checkpoint}: {successes} of {episodes}{needed}"
        if row.invalid is not None:
            return [], {f"heldout/{row.purpose}": f"{said}; invalid: {row.invalid}"}
        values = {
            f"heldout/{row.purpose}_success": successes / episodes,
            f"heldout/{row.purpose}_wall_s": row.wall_ns / 1e9,
        }
        step = self._saved_at.get(row.checkpoint, self._iteration)
        return [Point(entry.time, "iteration", step, values)], {f"heldout/{row.purpose}": said}

    def _end(self, entry: JournalEntry, row: AttemptEnded) -> tuple[list[Point], dict[str, str]]:
        """Return how an attempt ended, and the time per phase of all attempts so far."""
        values = {f"total/{phase}_s": spent_ns / 1e9 for phase, spent_ns in self._spent_ns.items()}
        values["total/wall_s"] = self._age_ns(entry, row) / 1e9
        for name, peak in (("host", row.peak_host_memory_bytes), ("gpu", row.peak_gpu_memory_bytes)):
            if peak is not None:
                values[f"total/peak_{name}_memory_gb"] = peak / 1e9
        notes = {} if row.reason is None else {"reason": row.reason}
        return [Point(entry.time, "iteration", self._iteration, values)], notes


def _telemetry(entry: JournalEntry, row: Telemetry, age_ns: int) -> list[Point]:
    """Return a sample, without the figures that were not measured.

    Args:
        entry: The row with its place.
        row: The sample.
        age_ns: Time that the run had taken in all attempts [ns].
    """
    values: dict[str, float | None] = {}
    if (host := row.host) is not None:
        values |= {
            "host_cpu_s": host.cpu_s,
            "host_busiest_thread": host.busiest_thread,
            "host_memory_gb": host.memory_bytes / 1e9,
            "host_available_gb": host.available_bytes / 1e9,
        }
    for index, device in enumerate(row.devices):
        used_bytes = device.memory_used_bytes
        values |= {
            f"gpu{index}_utilization": device.utilization,
            f"gpu{index}_memory_gb": None if used_bytes is None else used_bytes / 1e9,
            f"gpu{index}_power_w": device.power_w,
            f"gpu{index}_temperature_c": device.temperature_c,
            f"gpu{index}_sm_clock_mhz": device.sm_clock_mhz,
        }
    known = {f"telemetry/{name}": float(value) for name, value in values.items() if value is not None}
    return [Point(entry.time, "wall_s", age_ns // 1_000_000_000, known)] if known else []
