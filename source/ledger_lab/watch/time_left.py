"""Estimates the time that a run has left.

With earlier runs of the same settings, the estimate is their Kaplan-Meier curve on condition that the run has come this
far. The run itself is added to the runs that needed longer than it has taken so far. Nothing tells it from them, so it
needs longer than the ``k``-th of ``m`` such runs with a probability of ``1 - k / (m + 1)``. Therefore the interval
holds for any distribution of the times, and few earlier runs give a wide interval. ``python -m benchmarks time_left``
measures how often it holds.

A run also ends at its last iteration. The time until then follows from its own speed. It bounds every estimate, and is
the whole estimate if there are no earlier runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger_lab.costs import RunTime
from ledger_lab.costs.time_to_target import kaplan_meier
from ledger_lab.ledger import Run, StateRestored
from ledger_lab.meters import LOOP_PHASES
from ledger_lab.units import duration
from ledger_lab.watch.model import CONFIDENCE, Estimate

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


def time_left(earlier: Sequence[RunTime], spent_s: float, bound_s: float | None) -> Estimate | None:
    """Estimate the time until a run is confirmed to reach its target, or ends at its last iteration.

    Args:
        earlier: Earlier runs with the same settings. For the estimate, a run that ended short of the target would have
            gone on like the others.
        spent_s: Wall-clock time of the run so far [s].
        bound_s: Time until its last iteration [s]; ``None`` if unknown.

    Returns:
        The estimate [s]; ``None`` if nothing is known.
    """
    beyond = [run for run in earlier if run.observed_s > spent_s]
    later = sum(run.to_target_s is not None for run in beyond)
    if not later:
        if bound_s is None:
            return None
        return Estimate(expected=None, low=None, high=bound_s, basis=_why_no_curve(earlier, spent_s))
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
        f"{duration(spent_s)} after the start" + _bound_words(bound_s),
    )


def time_to_last_iteration(bound_s: float | None, why: str) -> Estimate | None:
    """Return the estimate for a run that ends at its last iteration only.

    Args:
        bound_s: Time until then [s]; ``None`` if unknown.
        why: Why it ends there.
    """
    if bound_s is None:
        return None
    return Estimate(expected=bound_s, low=None, high=None, basis=f"its own speed until its last iteration, {why}")


def _why_no_curve(earlier: Sequence[RunTime], spent_s: float) -> str:
    """Return the basis of an estimate that is only a bound."""
    bound = "at most until its last iteration, at its own speed"
    if not earlier:
        return f"{bound}: there is no earlier run with the same settings"
    return f"{bound}: none of {_runs(len(earlier))} with the same settings reached the target later than " + (
        f"{duration(spent_s)} after the start"
    )


def _runs(count: int) -> str:
    """Return a number of earlier runs in words."""
    return f"{count} earlier run{'' if count == 1 else 's'}"


def _bound_words(bound_s: float | None) -> str:
    """Return what is known of the last iteration."""
    return "" if bound_s is None else f"; its last iteration is {duration(bound_s)} away at its own speed"
