"""The live part of the page, from a watch of the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Literal

from ledger_lab.ledger import Run
from ledger_lab.reports.page.live import LOOKS, Link, LivePart, LiveRun, Money, Notice, Style
from ledger_lab.reports.serving.run_files import console, console_tail, policies, videos
from ledger_lab.reports.watch import Alert, RunProgress, Severity, Spend, State, Watch
from ledger_lab.reports.watch.words import (
    estimate_hours,
    estimate_time,
    estimate_usd,
    hours,
    iteration_words,
    rate,
    score_words,
)
from ledger_lab.units import MISSING, usd

Address = Callable[[Run, Literal["policies", "videos"], str], str]
"""Returns the address of a file of a run: its kind, and its path below the run's directory."""

_MOST_RUNS = 200
"""Trainings on the live part; with more, those that need attention come first."""
_MOST_LOGS = 50
"""Trainings whose console is shown."""
_LOG_BYTES = 6000
"""Size of the tail of a console [B]."""
_MOST_POLICIES = _MOST_VIDEOS = 3

_ORDER = list(LOOKS)
_STYLES: dict[Severity, Style] = {Severity.CRITICAL: "bad", Severity.WARNING: "short", Severity.NOTICE: "word"}


def live_part(
    watch: Watch, runs: Mapping[str, Run], *, written_at: float, every_s: float, due_s: float, address: Address
) -> LivePart:
    """Return the live part of the page.

    Args:
        watch: The watch.
        runs: The runs of the ledger, by id.
        written_at: The time [s since 1970].
        every_s: Time between two writings [s].
        due_s: Longest time until the next writing [s].
        address: Returns the addresses of files.
    """
    states = Counter(str(progress.state) for progress in watch.runs)
    ordered = sorted(watch.runs, key=lambda progress: _ORDER.index(str(progress.state)))
    shown = []
    for place, progress in enumerate(ordered[:_MOST_RUNS]):
        run = runs.get(progress.run_id) if progress.run_id is not None else None
        shown.append(_live_run(progress, run, address, with_log=place < _MOST_LOGS))
    return LivePart(
        written_at=written_at,
        every_s=every_s,
        due_s=due_s,
        runs=tuple(shown),
        left_out=len(watch.runs) - len(shown),
        counts=tuple((name, states[name]) for name in LOOKS if states[name]),
        notices=tuple(map(_notice, watch.alerts)),
        money=tuple(map(_money, (*watch.studies, *watch.cohorts))),
        notes=watch.notes,
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


def _live_run(progress: RunProgress, run: Run | None, address: Address, *, with_log: bool) -> LiveRun:
    """Return a training as it is shown."""
    log_name, log = "", ""
    if run is not None and with_log and (name := console(run)) is not None:
        with suppress(OSError):  # it was removed meanwhile
            log_name, log = name, console_tail(run, name, _LOG_BYTES)
    return LiveRun(
        name=progress.name,
        state=str(progress.state),
        said=_said(progress),
        task=progress.task or "",
        cohort=progress.cohort or progress.study or "",
        progress=_share(progress),
        iterations="" if progress.max_iterations is None else f"iteration {iteration_words(progress)}",
        score=score_words(progress),
        time_left=estimate_time(progress.left_s),
        usd_left=estimate_usd(progress.left_usd),
        spent=usd(progress.usd),
        log_name=log_name,
        log=log,
        links=() if run is None else run_links(run, address, _MOST_POLICIES, _MOST_VIDEOS),
    )


def _said(progress: RunProgress) -> str:
    """Return more about the state of a training."""
    said = [] if progress.said is None else [progress.said]
    if progress.target_reached:
        said.append("target reached")
    if progress.attempts > 1:
        said.append(f"attempt {progress.attempts}")
    since = progress.last_row_at if progress.state in (State.SILENT, State.LOST) else progress.since
    if since is not None:
        word = "last row" if progress.state in (State.SILENT, State.LOST) else "since"
        said.append(f"{word} {since:%Y-%m-%d %H:%M:%S} UTC")
    return " · ".join(said)


def _share(progress: RunProgress) -> float | None:
    """Return the share of the way to the end of a training: of the time if it is known, else of the iterations."""
    if progress.left_s is not None and progress.left_s.expected is not None:
        whole_s = progress.wall_s + progress.left_s.expected
        return progress.wall_s / whole_s if whole_s > 0 else None
    if not progress.max_iterations:
        return None
    return min(1.0, progress.iterations / progress.max_iterations)


def _notice(alert: Alert) -> Notice:
    """Return an alert as it is shown."""
    price = "" if alert.usd_per_hour is None else f" ({rate(alert.usd_per_hour)})"
    return Notice(
        subject=f"{alert.kind.replace('_', ' ')}: {alert.subject_kind} {alert.subject}",
        sentence=f"{alert.sentence}{price}",
        way_out=alert.way_out,
        style=_STYLES[alert.severity],
    )


def _money(spend: Spend) -> Money:
    """Return the spend of a cohort or a study as it is shown."""
    planned = "" if spend.planned is None else f" of {spend.planned}"
    forecast = estimate_usd(spend.forecast_usd)
    if spend.forecast_usd is None:
        forecast = estimate_hours(spend.forecast_h) if spend.forecast_h is not None else spend.unknown or MISSING
    budgets = [usd(spend.budget_usd)] if spend.budget_usd is not None else []
    budgets += [hours(spend.budget_h)] if spend.budget_h is not None else []
    return Money(
        name=spend.name,
        kind=spend.kind,
        runs=f"{spend.runs}{planned}, {spend.live_runs} live",
        spent=f"{usd(spend.spent_usd)} · {hours(spend.spent_h)}",
        rate=rate(spend.usd_per_hour) if spend.live_runs else MISSING,
        forecast=forecast,
        budget=" · ".join(budgets) or MISSING,
    )
