"""What goes on now, as the page shows it: what waits and runs, what needs attention, and what money is left.

All figures are words that are ready to show; :mod:`ledger_lab.cli.live_page` makes them from a watch of the
ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Style = Literal["good", "short", "bad", "running", "word"]
"""Classes of the page's style sheet that colour a state."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """How the page shows a state of a training."""

    sign: str
    style: Style


LOOKS = {
    "hung": Look(sign="■", style="bad"),
    "silent": Look(sign="■", style="bad"),
    "lost": Look(sign="✖", style="bad"),
    "preempted": Look(sign="▲", style="short"),
    "queued": Look(sign="…", style="word"),
    "running": Look(sign="●", style="running"),
    "ended": Look(sign="–", style="word"),
}
"""Looks of the states of :class:`ledger_lab.reports.watch.State`, those that need attention first."""

_GOING_ON = ("hung", "silent", "queued", "running")
"""States of trainings that wait or cost money now."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link to a file of a run."""

    title: str
    address: str
    """Relative address, percent-encoded."""


@dataclass(frozen=True, kw_only=True)
class LiveRun:
    """A training that waits, runs, or was preempted or lost lately."""

    name: str
    """Run id, or the name of a training that has no run yet."""
    state: str
    """A key of :data:`LOOKS`."""
    said: str
    """More about the state."""
    task: str
    cohort: str
    progress: float | None
    """Share of the way to its end, in [0, 1]; ``None`` if unknown."""
    iterations: str
    score: str
    """Its best score, against the target."""
    time_left: str
    usd_left: str
    spent: str
    log_name: str = ""
    """Name of the file with its console output; empty if there is none."""
    log: str = ""
    """Last lines of that file."""
    links: tuple[Link, ...] = ()
    """Its newest policies and videos."""

    @property
    def look(self) -> Look:
        """How its state is shown."""
        return LOOKS[self.state]


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something that needs attention."""

    subject: str
    sentence: str
    way_out: str
    style: Style


@dataclass(frozen=True, kw_only=True)
class Money:
    """What a cohort or a study has spent, and what it will spend."""

    name: str
    kind: str
    runs: str
    spent: str
    rate: str
    forecast: str
    budget: str


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
    counts: tuple[tuple[str, int], ...] = ()
    """Number of trainings in each state that occurs, in the order of :data:`LOOKS`."""
    notices: tuple[Notice, ...] = ()
    money: tuple[Money, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be found out."""

    @property
    def goes_on(self) -> bool:
        """Whether a training waits or runs."""
        return any(name in _GOING_ON for name, _ in self.counts)
