"""What goes on now, on a page that lives: what waits and runs, what needs attention, and what money is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Literal

from ledger_lab.ledger import Run
from ledger_lab.reports.page.parts import page_template
from ledger_lab.reports.serving.run_files import console_end, policies, videos
from ledger_lab.reports.watch import words
from ledger_lab.reports.watch.model import RunProgress, State, Watch
from ledger_lab.units import usd

Address = Callable[[Run, Literal["policies", "videos"], str], str]
"""Returns the address of a file of a run: its kind, and its path below the run's directory."""

LOOKS = {
    State.HUNG: ("■", "bad"),
    State.SILENT: ("■", "bad"),
    State.LOST: ("✖", "bad"),
    State.PREEMPTED: ("▲", "short"),
    State.QUEUED: ("…", "word"),
    State.RUNNING: ("●", "running"),
    State.ENDED: ("–", "word"),
}
"""Sign and class of the style sheet of each state, those that need attention first."""

_MOST_RUNS = 200
"""Trainings on the live part; with more, those that need attention come first."""
_MOST_LOGS = 50
"""Trainings whose console is shown."""
_LOG_BYTES = 6000
"""Size of the tail of a console [B]."""
_MOST_POLICIES = _MOST_VIDEOS = 3


@dataclass(frozen=True, kw_only=True)
class LivePart:
    """The part of the page that changes while trainings run."""

    watch: Watch
    runs: Mapping[str, Run]
    """The runs of the ledger, by id."""
    address: Address
    written_at: float
    """When it was written [s since 1970]."""
    every_s: float
    """Time between two writings [s]."""
    due_s: float
    """Longest time until the next writing [s]."""
    ended: bool = False
    """Whether its writer has ended, so that nothing follows."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link to a file of a run."""

    title: str
    address: str
    """Relative address, percent-encoded."""


def render_live(live: LivePart) -> str:
    """Return the live part of a page as HTML.

    Args:
        live: The live part.
    """
    watch = live.watch
    states = Counter(progress.state for progress in watch.runs)
    ordered = sorted(watch.runs, key=lambda progress: [*LOOKS].index(progress.state))[:_MOST_RUNS]
    rows = []
    for place, progress in enumerate(ordered):
        run = live.runs.get(progress.run_id or "")
        log = None if run is None or place >= _MOST_LOGS else console_end(run, _LOG_BYTES)
        links = () if run is None else run_links(run, live.address, _MOST_POLICIES, _MOST_VIDEOS)
        rows.append((progress, _said(progress), _share(progress), log, links))
    return page_template("live.html").render(
        live=live,
        watch=watch,
        counts=[(state, states[state], *LOOKS[state]) for state in LOOKS if states[state]],
        rows=rows,
        left_out=len(watch.runs) - len(rows),
        looks=LOOKS,
        styles={"critical": "bad", "warning": "short", "notice": "word"},
        words=words,
        usd=usd,
        written=datetime.fromtimestamp(live.written_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
    )


def run_links(run: Run, address: Address, most_policies: int = 1, most_videos: int = 1) -> tuple[Link, ...]:
    """Return links to the newest policies and videos of a run, the newest first.

    Args:
        run: The run.
        address: Returns the addresses of files.
        most_policies: Largest number of policies.
        most_videos: Largest number of videos.
    """
    saved = [
        Link(title=f"policy {path}", address=address(run, "policies", path))
        for path in islice(policies(run), most_policies)
    ]
    films = [
        Link(title=f"video {path.removeprefix('videos/')}", address=address(run, "videos", path))
        for path in videos(run)[:most_videos]
    ]
    return (*saved, *films)


def _said(progress: RunProgress) -> str:
    """Return more about the state of a training."""
    said = [] if progress.said is None else [progress.said]
    if progress.target_reached:
        said.append("target reached")
    if progress.attempts > 1:
        said.append(f"attempt {progress.attempts}")
    quiet = progress.state in (State.SILENT, State.LOST) and progress.last_row_at is not None
    since = progress.last_row_at if quiet else progress.since
    said.append(f"{'last row' if quiet else 'since'} {since:%Y-%m-%d %H:%M:%S} UTC")
    return " · ".join(said)


def _share(progress: RunProgress) -> float | None:
    """Return the share of the way to the end of a training: of the time if it is known, else of the iterations."""
    if progress.left_s is not None and progress.left_s.expected is not None:
        whole_s = progress.wall_s + progress.left_s.expected
        return progress.wall_s / whole_s if whole_s > 0 else None
    if not progress.max_iterations:
        return None
    return min(1.0, progress.iterations / progress.max_iterations)
