"""Health events of a run, and the part of the budget that an early stop saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ledger_lab.ledger import NON_FINITE, Attempt, Health, PhaseWindow, Run, Status
from ledger_lab.ledger.costs import Price, billable_usd
from ledger_lab.ledger.meters import Phase
from ledger_lab.units import duration, usd

_NO_WORK_OF_ITERATIONS = (Phase.STARTUP, Phase.COMPILE, Phase.SUSPENDED)
"""Phases to which further iterations would not have added."""


@dataclass(frozen=True, kw_only=True)
class HealthSummary:
    """All health events of one kind in a run."""

    event: str
    times: int
    iteration: int
    """Iterations completed at the first event."""
    evidence: str
    advice: str
    """Evidence and advice of the first event."""
    stopped: bool
    """Whether an event of this kind ended the run."""


@dataclass(frozen=True, kw_only=True)
class SavedBudget:
    """The rest of a run's declared budget when a health event ended the run: an upper bound of the saving."""

    event: str
    iteration: int
    """Iterations completed."""
    max_iterations: int
    iterations: int
    """Iterations that were left."""
    wall_s: float | None
    """Time that these iterations would have taken at the run's own pace, scoring included [s]; ``None`` if no iteration
    was completed."""
    usd: float | None
    """Bill for that time [USD]; ``None`` without a price or a pace."""


def summarize_health(run: Run) -> list[HealthSummary]:
    """Gather the health events of a run.

    Args:
        run: The run.

    Returns:
        One summary per kind of event, in the order of their first events.
    """
    rows = [row for attempt in run.attempts for row in attempt.of(Health)]
    first: dict[str, Health] = {}
    for row in rows:
        first.setdefault(row.event, row)
    times = Counter(row.event for row in rows)
    return [
        HealthSummary(
            event=event,
            times=times[event],
            iteration=row.iteration,
            evidence=row.evidence,
            advice=row.advice,
            stopped=any(each.stops for each in rows if each.event == event),
        )
        for event, row in first.items()
    ]


def saved_budget(run: Run, price: Price) -> SavedBudget | None:
    """Compute the rest of the budget of a run that a health event ended.

    The pace is the mean over all iterations of every phase but start-up, compilation and suspension.

    Args:
        run: The run.
        price: Price to use.

    Returns:
        The rest; ``None`` if the run ended otherwise.
    """
    if not run.attempts or run.attempts[-1].status not in (Status.STOPPED, Status.NON_FINITE):
        return None
    stops = [row.event for row in run.attempts[-1].of(Health) if row.stops]
    windows = [
        window for attempt in run.attempts for window in _iterations(attempt) if not run.is_lost(attempt, window)
    ]
    done = max((window.iteration or 0 for window in windows), default=0)
    left = max(run.declared.max_iterations - done, 0)
    wall_s: float | None = None
    money: float | None = None
    if windows:
        spent_ns = sum(
            ns for window in windows for phase, ns in window.phase_ns.items() if phase not in _NO_WORK_OF_ITERATIONS
        )
        wall_s = left * spent_ns / len(windows) / 1e9
        *before, last = [attempt.wall_ns / 1e9 for attempt in run.attempts]
        devices, machines = run.declared.devices, run.declared.machines
        billed = billable_usd([*before, last], price, devices=devices, machines=machines)
        whole = billable_usd([*before, last + wall_s], price, devices=devices, machines=machines)
        money = None if billed is None or whole is None else whole - billed
    return SavedBudget(
        event=stops[0] if stops else NON_FINITE,
        iteration=done,
        max_iterations=run.declared.max_iterations,
        iterations=left,
        wall_s=wall_s,
        usd=money,
    )


def _iterations(attempt: Attempt) -> list[PhaseWindow]:
    """Return the windows of an attempt that end an iteration, the first of each iteration number."""
    firsts: dict[int, PhaseWindow] = {}
    for window in attempt.windows:
        if window.iteration is not None:
            firsts.setdefault(window.iteration, window)
    return list(firsts.values())


def health_lines(run_id: str, events: Sequence[HealthSummary], saved: SavedBudget | None) -> list[str]:
    """Return one line per kind of health event, and a line on what the early stop saved.

    The evidence of the event that ended the run is left out, as the report shows it as the reason of the end.

    Args:
        run_id: The run.
        events: Its events.
        saved: The rest of its budget.
    """
    lines = [
        f"{run_id} {each.event} at iteration {each.iteration}{f' ({each.times} times)' if each.times > 1 else ''}: "
        f"{each.evidence}; {each.advice}"
        for each in events
        if saved is None or each.event != saved.event
    ]
    if saved is not None:
        left = [f"{saved.iterations} iterations of its budget were left"]
        if saved.wall_s is not None:
            left.append(f"{duration(saved.wall_s)}{'' if saved.usd is None else f' and {usd(saved.usd)}'} at its pace")
        ended = f"{run_id} ended by {saved.event} after {saved.iteration} of {saved.max_iterations} iterations"
        advice = [each.advice for each in events if each.event == saved.event]
        lines.append("; ".join([f"{ended}: {', '.join(left)}", *advice]))
    return lines
