"""Trials of a search, and what the ledger says of their trainings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from ledger_lab.errors import UserError
from ledger_lab.ledger.rows import Status
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.space import Values

MOST_ATTEMPTS: Final = 5
"""Attempts in a row without a saved state, after which a training that still did not end counts as hung."""
STOCK: Final = 0
"""Number of the trial that trains the stock recipe."""
_COHORT = re.compile(
    r"(?:t(?P<trial>\d{4,9})|g(?!00-)(?P<generation>\d{2,5})-m(?P<member>\d{2,5}))"
    r"(?:-(?:r(?P<repeat>[1-9]\d{0,5})|(?P<sealed>sealed)))?"
)


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
    ended_s: float = 0.0
    """Time of its last row, in seconds since 1970 [s]."""
    machine: str = ""
    """Where it ran; drift is corrected within a machine."""
    step_s: float | None = None
    """Seconds of the training phases per environment step, which tells the speed of the machine."""
    repeat: int = 0
    """Number of the control, from 1; 0 for a training that is no control."""
    sealed: bool = False
    """Whether it is a training of the final comparison, on a sealed seed."""
    success: float | None = None
    """In a search with a population: success rate of its last policy on the panel, in [0, 1]; ``None`` if it has no
    valid score, or if no other training can begin with this policy."""
    mean_return: float | None = None
    """In a population: mean return of the training episodes at its end; ``None`` if unknown."""

    @property
    def charged_s(self) -> float:
        """Time that it counts as in the race [s]: without the target, at least its cap."""
        return self.wall_s if self.outcome is Outcome.REACHED else max(self.wall_s, self.cap_s or 0.0)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A recipe that the search tries, with its trainings. Trial 0 is the stock recipe, and has no values.

    In a population, what a member trains in one generation is a trial of its own.
    """

    number: int
    values: Values
    runs: tuple[SeedRun, ...] = ()
    parent: int | None = None
    """In a population: the trial whose last policy it began with; ``None`` for random networks."""

    @property
    def is_stock(self) -> bool:
        """Whether it is the stock recipe."""
        return self.number == STOCK

    def raced(self) -> dict[int, SeedRun]:
        """Return its trainings of the race by seed, without controls."""
        return {run.seed: run for run in self.runs if not run.repeat and not run.sealed}

    def sealed(self, seed: int) -> SeedRun | None:
        """Return its training on a sealed seed; ``None`` if there is none."""
        return next((run for run in self.runs if run.sealed and run.seed == seed), None)


@dataclass(frozen=True)
class Place:
    """What a training of a search is run for: a trial in the race, a control, or the final comparison."""

    trial: int
    repeat: int = 0
    sealed: bool = False


@dataclass(frozen=True)
class SearchTraining:
    """One training of a search: its place, and its seed."""

    place: Place
    seed: int


def trial_of(declaration: SearchDeclaration, generation: int, member: int) -> int:
    """Return the number of the trial of a member of a population in one generation; both count from 1."""
    return (generation - 1) * declaration.members + member


def generation_of(declaration: SearchDeclaration, trial: int) -> int:
    """Return the generation of a trial of a population, from 1."""
    return (trial - 1) // declaration.members + 1


def member_of(declaration: SearchDeclaration, trial: int) -> int:
    """Return the member of a population that a trial belongs to, from 1."""
    return (trial - 1) % declaration.members + 1


def short_name(declaration: SearchDeclaration, trial: int) -> str:
    """Return the name of a trial in cohorts and files: its number, or its generation and member in a population."""
    if declaration.population is None or trial == STOCK:
        return f"t{trial:04d}"
    return f"g{generation_of(declaration, trial):02d}-m{member_of(declaration, trial):02d}"


def cohort_of(declaration: SearchDeclaration, place: Place) -> str:
    """Return the cohort of a training: the search, the beginning of its digest, the trial, and what it is run for."""
    suffix = "-sealed" if place.sealed else f"-r{place.repeat}" if place.repeat else ""
    return f"{declaration.cohort_stem}-{short_name(declaration, place.trial)}{suffix}"


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
    trial = found["trial"] or trial_of(declaration, int(found["generation"]), int(found["member"]))
    place = Place(int(trial), int(found["repeat"] or 0), found["sealed"] is not None)
    return place if cohort_of(declaration, place) == cohort else None


class Record(NamedTuple):
    """What is known of one training: its place, the values of its trial, and how it stands."""

    place: Place
    values: Values
    run: SeedRun
    parent: int | None = None
    """As in :class:`Trial`; ``None`` for trainings on sealed seeds."""


def gather(declaration: SearchDeclaration, records: Iterable[Record]) -> tuple[Trial, ...]:
    """Return the trials that the trainings of a search belong to. The order of the records does not matter.

    Args:
        declaration: The search.
        records: What is known of each training.

    Returns:
        The trials by number.

    Raises:
        UserError: If two trainings contradict each other, or the search can't have started one of them.
    """
    values: dict[int, Values] = {}
    parents: dict[int, int | None] = {}
    runs: dict[int, dict[tuple[int, int, bool], SeedRun]] = {}
    for place, found, run, parent in records:
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
        if not place.sealed:
            if run.seed not in declaration.seeds_of(place.trial):
                raise UserError(f"{where}: seed {run.seed} is none of its seeds: move this run away")
            if wrong := _wrong_parent(declaration, place.trial, parent):
                raise UserError(f"{where}: {wrong}: move this run away")
            parents[place.trial] = parent
        key = (run.seed, place.repeat, place.sealed)
        if key in runs.setdefault(place.trial, {}):
            raise UserError(f"{where}: seed {run.seed} was trained twice: move one of the runs away")
        runs[place.trial][key] = run
    for number, before in parents.items():
        if before is not None and before not in parents:
            raise UserError(
                f"search {declaration.name}, trial {number}: it began with a policy of trial {before}, whose run is "
                "missing: restore it"
            )
    return tuple(
        Trial(
            number=number,
            values=values[number],
            runs=tuple(run for _, run in sorted(runs[number].items())),
            parent=parents.get(number),
        )
        for number in sorted(values)
    )


def _wrong_parent(declaration: SearchDeclaration, trial: int, parent: int | None) -> str | None:
    """Return what is wrong with the trial that a training of the race began with; ``None`` if nothing is."""
    before = 0 if declaration.population is None else generation_of(declaration, trial) - 1
    if before == 0:
        return None if parent is None else "it did not begin with random networks"
    if parent is None or generation_of(declaration, parent) != before:
        return f"it did not begin with a policy of generation {before}"
    return None


def in_order(trials: Iterable[Trial]) -> Sequence[Trial]:
    """Return trials by number, each with its trainings in an order that depends on the trainings only."""
    return [
        replace(trial, runs=tuple(sorted(trial.runs, key=lambda run: (run.seed, run.repeat, run.sealed))))
        for trial in sorted(trials, key=lambda trial: trial.number)
    ]
