"""Estimates the time that a run has left.

With earlier runs of the same settings, the estimate is their Kaplan-Meier curve on condition that the run has come this
far. The run itself is added to the runs that needed longer than it has taken so far. Nothing tells it from them, so it
needs longer than the ``k``-th of ``m`` such runs with a probability of ``1 - k / (m + 1)``. Therefore the interval
holds for any distribution of the times, and few earlier runs give a wide interval. ``python -m benchmarks time_left``
measures how often it holds.

A run also ends at its last iteration, or at its time limit (``--limit_s``). The time until its last iteration follows
from its own speed. The shorter of the two times bounds every estimate, and is the whole estimate if there are no
earlier runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger_lab.ledger import Run, StateRestored
from ledger_lab.ledger.costs import RunTime
from ledger_lab.ledger.costs.time_to_target import kaplan_meier
from ledger_lab.ledger.meters import LOOP_PHASES
from ledger_lab.reports.watch.model import CONFIDENCE, Estimate
from ledger_lab.units import duration

LAST_ITERATION: Final = "last iteration"
TIME_LIMIT: Final = "time limit"

_TAIL: Final = (1 - CONFIDENCE) / 2
_ROUNDING: Final = 1e-9


def seconds_to_last_iteration(run: Run) -> float | None:
    """Return the time until the last iteration of a run, at the speed of its last attempt [s].

    The speed is that of the training loop, scoring included. Neither start-up nor the time after the last row counts.

    Args:
        run: The run.

    Returns:
        ``None`` before the first iteration of the attempt.
    """
    if not run.attempts:
        return None
    attempt = run.attempts[-1]
    before = max((row.iteration for row in attempt.of(StateRestored)), default=0)
    done = attempt.sums.iterations - before
    if done <= 0:
        return None
    loop_s = sum(ns for phase, ns in attempt.sums.phase_ns.items() if phase in LOOP_PHASES) / 1e9
    return max(run.declared.max_iterations - attempt.sums.iterations, 0) * loop_s / done


def seconds_to_end(run: Run) -> tuple[float | None, str]:
    """Return the time until a run ends short of its target [s], and at what: its last iteration or its time limit.

    Args:
        run: The run.

    Returns:
        ``None`` if the time is unknown.
    """
    ends = [(seconds_to_last_iteration(run), LAST_ITERATION), (run.limit_left_s, TIME_LIMIT)]
    known = [(max(left_s, 0.0), end) for left_s, end in ends if left_s is not None]
    return min(known, default=(None, LAST_ITERATION))


def time_left(
    earlier: Sequence[RunTime], spent_s: float, bound_s: float | None, end: str = LAST_ITERATION
) -> Estimate | None:
    """Estimate the time until a run is confirmed to reach its target, or ends short of it.

    Args:
        earlier: Earlier runs with the same settings. For the estimate, a run that ended short of the target would have
            gone on like the others.
        spent_s: Wall-clock time of the run so far [s].
        bound_s: Time until it ends short of its target [s]; ``None`` if unknown.
        end: What then ends it, see :func:`seconds_to_end`.

    Returns:
        The estimate [s]; ``None`` if nothing is known.
    """
    beyond = [run for run in earlier if run.observed_s > spent_s]
    later = sum(run.to_target_s is not None for run in beyond)
    if not later:
        if bound_s is None:
            return None
        return Estimate(expected=None, low=None, high=bound_s, basis=_why_no_curve(earlier, spent_s, end))
    endless = RunTime(wall_s=2 * max(run.observed_s for run in beyond) + 1, to_target_s=None)
    curve = kaplan_meier([*beyond, endless]).sf  # the run itself, which comes after all of them
    steps = [(float(t), float(above)) for t, above in zip(curve.quantiles, curve.probabilities, strict=True)]
    low_s = max((t for t, above in steps if 1 - above <= _TAIL + _ROUNDING), default=spent_s) - spent_s

    def first_below(share: float) -> float | None:
        found = next((t - spent_s for t, above in steps if above <= share + _ROUNDING), None)
        return bound_s if found is None else found if bound_s is None else min(found, bound_s)

    return Estimate(
        expected=first_below(0.5),
        low=low_s if bound_s is None else min(low_s, bound_s),
        high=first_below(_TAIL),
        basis=f"{later} of {_runs(len(earlier))} with the same settings reached the target later than "
        f"{duration(spent_s)} after the start" + _bound_words(bound_s, end),
    )


def time_to_end(bound_s: float | None, end: str, why: str, *, is_known: bool) -> Estimate | None:
    """Return the estimate for a run that does not end at its target.

    Args:
        bound_s: Time until it ends [s]; ``None`` if unknown.
        end: What then ends it, see :func:`seconds_to_end`.
        why: Why its target does not end it.
        is_known: Whether the time until its last iteration is known; if not, the time limit is only a bound.
    """
    if bound_s is None:
        return None
    how = "its own speed until its last iteration" if end == LAST_ITERATION else f"its {end}"
    expected, high = (bound_s, None) if is_known else (None, bound_s)
    return Estimate(expected=expected, low=None, high=high, basis=f"{how}, {why}")


def _why_no_curve(earlier: Sequence[RunTime], spent_s: float, end: str) -> str:
    """Return the basis of an estimate that is only a bound."""
    bound = f"at most until its {end}" + (", at its own speed" if end == LAST_ITERATION else "")
    if not earlier:
        return f"{bound}: there is no earlier run with the same settings"
    return f"{bound}: none of {_runs(len(earlier))} with the same settings reached the target later than " + (
        f"{duration(spent_s)} after the start"
    )


def _runs(count: int) -> str:
    """Return a number of earlier runs in words."""
    return f"{count} earlier run{'' if count == 1 else 's'}"


def _bound_words(bound_s: float | None, end: str) -> str:
    """Return what is known of the end short of the target."""
    if bound_s is None:
        return ""
    return f"; its {end} is {duration(bound_s)} away" + (" at its own speed" if end == LAST_ITERATION else "")
