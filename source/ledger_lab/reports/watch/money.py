"""What a run costs while it goes on."""

from __future__ import annotations

from ledger_lab.ledger.costs import billable_usd
from ledger_lab.reports.facts import RunFacts
from ledger_lab.reports.watch.model import Estimate

_HOUR_S = 3600.0


def usd_of_more(facts: RunFacts, more_s: float) -> float | None:
    """Return the cost of the time by which a run's last attempt becomes longer [USD].

    It is billed as the house bills attempts (:func:`~ledger_lab.ledger.costs.billable_usd`). The power of hardware that
    the user owns is taken to stay the same.

    Args:
        facts: The run.
        more_s: The time [s].

    Returns:
        The cost; ``None`` if the run has no price, or the energy that it needs is unknown.
    """
    if not facts.run.attempts:
        return None
    walls_s = [attempt.wall_ns / 1e9 for attempt in facts.run.attempts]
    kwh = [*facts.energy.attempt_kwh]
    longer_s = [*walls_s[:-1], walls_s[-1] + more_s]
    last_kwh = kwh[-1]
    longer_kwh = [*kwh[:-1], None if last_kwh is None or not walls_s[-1] else last_kwh * longer_s[-1] / walls_s[-1]]

    def billed(attempt_s: list[float], attempt_kwh: list[float | None]) -> float | None:
        return billable_usd(
            attempt_s,
            facts.price,
            devices=facts.declared.devices,
            machines=facts.declared.machines,
            attempt_kwh=attempt_kwh,
        )

    now, later = billed(walls_s, kwh), billed(longer_s, longer_kwh)
    return None if now is None or later is None else max(later - now, 0.0)


def usd_per_hour(facts: RunFacts) -> float | None:
    """Return what a run costs per hour while it goes on [USD/h]; ``None`` without a price.

    Args:
        facts: The run.
    """
    # Over whole billed units, because a price may be rounded up to hours.
    units = max(1.0, facts.price.billing_granularity_s / _HOUR_S)
    cost = usd_of_more(facts, units * _HOUR_S)
    return None if cost is None else cost / units


def usd_estimate(facts: RunFacts, left_s: Estimate | None) -> Estimate | None:
    """Return the cost of the time that a run has left [USD]; ``None`` if it is unknown.

    Args:
        facts: The run.
        left_s: The time [s].
    """
    if left_s is None or facts.price.usd_per_hour is None:
        return None
    expected, low, high = (
        None if each is None else usd_of_more(facts, each) for each in (left_s.expected, left_s.low, left_s.high)
    )
    if expected is None and high is None:
        return None
    return Estimate(expected=expected, low=low, high=high, basis=f"{left_s.basis}; at {facts.price.instance}'s price")
