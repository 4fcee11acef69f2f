"""Trials of a search, and what the ledger says of their trainings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ledger_lab.errors import UserError
from ledger_lab.ledger.rows import Status
from ledger_lab.search.declaration import SearchDeclaration
from ledger_lab.search.space import Values

MOST_ATTEMPTS: Final = 5
"""Attempts in a row without a saved state, after which a training that still did not end counts as hung."""
STOCK: Final = 0
"""Number of the trial that trains the stock recipe."""
_COHORT = re.compile(r"t(?P<trial>\d{4,9})(?:-(?:r(?P<repeat>[1-9]\d{0,5})|(?P<sealed>sealed)))?")


class Outcome(StrEnum):
    """How a training of a search stands."""

    REACHED = "reached"
    """A checkpoint is proven to reach the target."""
    MISSED = "missed"
    """All iterations were trained, and no checkpoint reached the target."""
    CAPPED = "capped"
    """It used up its cap."""
    CRASHED = "crashed"
    """An error or a health event ended it, which another attempt would meet again."""
    HUNG = "hung"
    """It ended without a result, and without a saved state in the last :data:`MOST_ATTEMPTS` attempts."""
    INTERRUPTED = "interrupted"
    """It was preempted, interrupted, killed or lost, and has to be resumed."""
    RUNNING = "running"
    """It runs, or waits on a cluster."""

    @property
    def is_final(self) -> bool:
        """Whether it has ended, and is not resumed."""
        return self not in (Outcome.INTERRUPTED, Outcome.RUNNING)


_FINAL: Mapping[str, Outcome] = {
    "target_reached": Outcome.REACHED,
    "completed": Outcome.MISSED,
    "limit_reached": Outcome.CAPPED,
    "running": Outcome.RUNNING,
    **dict.fromkeys(("crashed", "out_of_memory", "non_finite", "invalid", "refused", "stopped"), Outcome.CRASHED),
}
"""Outcomes by status. Each other status is that of an interruption."""


def outcome_of(status: Status, attempts: int) -> Outcome:
    """Return how a training stands.

    Args:
        status: Status of its latest attempt.
        attempts: Number of its latest attempts that saved no state.
    """
    return _FINAL.get(status.value, Outcome.HUNG if attempts >= MOST_ATTEMPTS else Outcome.INTERRUPTED)


@dataclass(frozen=True, kw_only=True)
class SeedRun:
    """One training of a trial."""

    seed: int
    outcome: Outcome
    wall_s: float
    """Wall-clock time of all attempts so far [s]."""
    usd: float | None
    """What that costs [USD]; ``None`` without a price."""
    cap_s: float | None
    """Time that it may take [s]; ``None`` without a limit."""
    started_s: float
    """Time of its declaration, in seconds since 1970 [s]."""
    machine: str = ""
    """Where it ran; drift is corrected within a machine."""
    step_s: float | None = None
    """Seconds of the training phases per environment step, which tells the speed of the machine."""
    repeat: int = 0
    """Number of the control, from 1; 0 for a training that is no control."""
    sealed: bool = False
    """Whether it is a training of the final comparison, on a sealed seed."""

    @property
    def charged_s(self) -> float:
        """Time that it counts as in the race [s]: without the target, at least its cap."""
        return self.wall_s if self.outcome is Outcome.REACHED else max(self.wall_s, self.cap_s or 0.0)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A recipe that the search tries, with its trainings. Trial 0 is the stock recipe, and has no values."""

    number: int
    values: Values
    runs: tuple[SeedRun, ...] = ()

    @property
    def is_stock(self) -> bool:
        """Whether it is the stock recipe."""
        return self.number == STOCK

    def raced(self) -> dict[int, SeedRun]:
        """Return its trainings of the race by seed, without controls."""
        return {run.seed: run for run in self.runs if not run.repeat and not run.sealed}


@dataclass(frozen=True)
class Place:
    """What a training of a search is run for: a trial in the race, a control, or the final comparison."""

    trial: int
    repeat: int = 0
    sealed: bool = False


def cohort_of(declaration: SearchDeclaration, place: Place) -> str:
    """Return the cohort of a training: the search, the beginning of its digest, the trial, and what it is run for."""
    suffix = "-sealed" if place.sealed else f"-r{place.repeat}" if place.repeat else ""
    return f"{declaration.cohort_stem}-t{place.trial:04d}{suffix}"


def place_of(declaration: SearchDeclaration, cohort: str | None) -> Place | None:
    """Return the place of a run in a search.

    Args:
        declaration: The search.
        cohort: Cohort of the run.

    Returns:
        Its place; ``None`` if the run is not from this search.
    """
    stem, dash, rest = (cohort or "").rpartition(f"{declaration.cohort_stem}-")
    found = _COHORT.fullmatch(rest)
    if stem or not dash or found is None:
        return None
    place = Place(int(found["trial"]), int(found["repeat"] or 0), found["sealed"] is not None)
    return place if cohort_of(declaration, place) == cohort else None


def gather(declaration: SearchDeclaration, records: Iterable[tuple[Place, Values, SeedRun]]) -> tuple[Trial, ...]:
    """Return the trials that the trainings of a search belong to. The order of the records does not matter.

    Args:
        declaration: The search.
        records: The place of each training, the values of its trial, and the training.

    Returns:
        The trials by number.

    Raises:
        UserError: If two trainings contradict each other, or the search can't have started one of them.
    """
    values: dict[int, Values] = {}
    runs: dict[int, dict[tuple[int, int, bool], SeedRun]] = {}
    for place, found, run in records:
        where = f"search {declaration.name}, trial {place.trial}"
        if values.setdefault(place.trial, found) != found:
            raise UserError(
                f"{where}: its trainings have different values: move away those that the search did not start"
            )
        wrong = (
            declaration.space.check(found) if place.trial != STOCK else f"{min(found)} is changed" if found else None
        )
        if wrong:
            raise UserError(f"{where}: {wrong}: move its runs away, because the search can't have started them")
        if place.sealed != (run.seed in declaration.sealed_seeds):
            raise UserError(f"{where}: seed {run.seed} is {'not ' if place.sealed else ''}sealed: move this run away")
        if not place.sealed and run.seed not in declaration.search_seeds:
            raise UserError(f"{where}: seed {run.seed} is none of the search's seeds: move this run away")
        key = (run.seed, place.repeat, place.sealed)
        if key in runs.setdefault(place.trial, {}):
            raise UserError(f"{where}: seed {run.seed} was trained twice: move one of the runs away")
        runs[place.trial][key] = run
    return tuple(
        Trial(number=number, values=values[number], runs=tuple(run for _, run in sorted(runs[number].items())))
        for number in sorted(values)
    )


def in_order(trials: Iterable[Trial]) -> Sequence[Trial]:
    """Return trials by number, each with its trainings in an order that depends on the trainings only."""
    return [
        replace(trial, runs=tuple(sorted(trial.runs, key=lambda run: (run.seed, run.repeat, run.sealed))))
        for trial in sorted(trials, key=lambda trial: trial.number)
    ]
