"""Trials of a search, and how their trainings stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ledger_lab.ledger.rows import Status
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.space import Values

MOST_ATTEMPTS: Final = 5
"""Attempts in a row without a saved state, after which a training that still did not end counts as hung."""
STOCK: Final = 0
"""Number of the trial that trains the stock recipe."""


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

    @property
    def has_result(self) -> bool:
        """Whether it tells something about its recipe: it was trained to its end, or to its cap."""
        return self in (Outcome.REACHED, Outcome.MISSED, Outcome.CAPPED)


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
    success: float | None = None
    """In a population: success rate of its last policy on the panel, in [0, 1]; ``None`` if it has no valid score, or
    if no other training can begin with this policy."""
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
    """In the order of their seeds in the search file."""
    parent: int | None = None
    """In a population: the trial whose last policy it begins with; ``None`` for random networks."""

    @property
    def is_stock(self) -> bool:
        """Whether it is the stock recipe."""
        return self.number == STOCK

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that have been started."""
        return tuple(run.seed for run in self.runs)

    @property
    def reached(self) -> int:
        """Number of seeds on which it reached the target."""
        return sum(run.outcome is Outcome.REACHED for run in self.runs)

    @property
    def has_ended(self) -> bool:
        """Whether all trainings that were started have ended, and there is one."""
        return bool(self.runs) and all(run.outcome.is_final for run in self.runs)


def generation_of(declaration: SearchDeclaration, trial: int) -> int:
    """Return the generation of a trial of a population, from 1."""
    return (trial - 1) // declaration.members + 1


def member_of(declaration: SearchDeclaration, trial: int) -> int:
    """Return the member of a population that a trial belongs to, from 1."""
    return (trial - 1) % declaration.members + 1


def seeds_of(declaration: SearchDeclaration, trial: int) -> tuple[int, ...]:
    """Return the search seeds of a trial: all of them; in a population, that of the member."""
    seeds = declaration.search_seeds
    if declaration.is_race:
        return seeds
    return () if trial == STOCK else (seeds[member_of(declaration, trial) - 1],)


def cohort_of(declaration: SearchDeclaration, trial: int) -> str:
    """Return the cohort of a trial: the search, the beginning of its digest, and the number."""
    return f"{declaration.cohort_stem}-t{trial:04d}"


def trial_words(declaration: SearchDeclaration, trial: int) -> str:
    """Return the name of a trial."""
    if trial == STOCK:
        return "the stock recipe"
    if declaration.is_race:
        return f"trial {trial}"
    return f"member {member_of(declaration, trial)} in generation {generation_of(declaration, trial)}"


def values_words(values: Values) -> str:
    """Return values of a trial in one line."""

    def word(value: object) -> str:
        if isinstance(value, tuple):
            return "×".join(map(str, value))
        if isinstance(value, float):
            return f"{value:.3g}"
        return str(value).lower() if isinstance(value, bool) else str(value)

    return ", ".join(f"{name} {word(value)}" for name, value in values.items())
