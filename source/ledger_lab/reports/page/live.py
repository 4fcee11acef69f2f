"""What goes on now, as the page shows it: what waits and runs, what needs attention, and what money is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Style = Literal["good", "short", "bad", "running", ""]
"""Classes of the page's style sheet that colour a state."""


@dataclass(frozen=True, kw_only=True)
class State:
    """A state of a training, with its look."""

    name: str
    sign: str
    style: Style
    meaning: str


STATES = (
    State(name="hung", sign="■", style="bad", meaning="Its processes live, but it makes no progress."),
    State(name="lost", sign="✖", style="bad", meaning="It vanished: no process, and no end in the ledger."),
    State(name="failed", sign="✖", style="bad", meaning="It ended before its work was done, by a fault of its own."),
    State(name="unknown", sign="?", style="short", meaning="It was submitted, and its cluster cannot be asked from here."),
    State(name="preempted", sign="▲", style="short", meaning="It was ended from outside, and can be resumed."),
    State(name="queued", sign="…", style="", meaning="It was submitted, and waits for a machine."),
    State(name="running", sign="●", style="running", meaning="It trains."),
    State(name="proven", sign="★", style="good", meaning="Fresh episodes confirmed that its policy reaches the target."),
    State(name="ended", sign="–", style="", meaning="All its iterations are done, and no policy was confirmed."),
)
"""States, those that need attention first."""

_BY_NAME = {state.name: state for state in STATES}


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link to a file of a run."""

    title: str
    address: str
    """Relative address, percent-encoded."""


@dataclass(frozen=True, kw_only=True)
class LiveRun:
    """A training that waits or runs, or has ended lately. All figures are words, ready to show."""

    key: str
    """Run id, or the name of a training that has no run yet."""
    state: str
    """Name of one of :data:`STATES`."""
    said: str = ""
    """More about the state."""
    task: str = ""
    cohort: str = ""
    progress: float | None = None
    """Share of the way to the verdict, in [0, 1]; ``None`` if unknown."""
    progress_said: str = ""
    time_left: str = ""
    usd_left: str = ""
    spent: str = ""
    silent: str = ""
    """How long ago its last row was written."""
    log: str = ""
    """Last lines of its console."""
    log_name: str = ""
    links: tuple[Link, ...] = ()

    @property
    def look(self) -> State:
        """Its state."""
        return _BY_NAME[self.state]


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something that needs attention."""

    who: str
    text: str
    advice: str = ""
    style: Style = "bad"


@dataclass(frozen=True, kw_only=True)
class CohortMoney:
    """What a cohort has spent, and what it will spend."""

    cohort: str
    runs: str
    spent: str
    forecast: str
    said: str = ""


@dataclass(frozen=True, kw_only=True)
class LivePart:
    """The part of the page that changes while trainings run."""

    written_at: float
    """When it was written [s since 1970]."""
    every_s: float
    """Time between two writings [s]."""
    due_s: float
    """Longest time until the next writing, also if nothing changes [s]."""
    ended: bool = False
    """Whether its writer has ended, so that nothing follows."""
    runs: tuple[LiveRun, ...] = ()
    left_out: int = 0
    """Trainings that are not shown."""
    notices: tuple[Notice, ...] = ()
    cohorts: tuple[CohortMoney, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    """Number of trainings in each state."""

    @property
    def tally(self) -> list[tuple[State, int]]:
        """The states that occur, those that need attention first."""
        return [(state, self.counts[state.name]) for state in STATES if self.counts.get(state.name)]


def count_states(names: Sequence[str]) -> dict[str, int]:
    """Return how many trainings are in each state.

    Args:
        names: The state of each training.
    """
    return dict(Counter(names))
