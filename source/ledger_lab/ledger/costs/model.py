"""Cost of a run, and its rates: every number with its denominator.

All functions are pure. An unknown value is None, and so is every number that depends on it. It is never replaced by 0,
and never left out of a sum.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Literal

from ledger_lab.ledger.costs.prices import OWNED, Price


def billable_seconds(wall_s: float, price: Price) -> float:
    """Return the time that an attempt is billed for on each of its instances [s].

    ``max(minimum, ceil(wall_s / granularity) * granularity)``, as the price entry says. Each attempt is billed as a
    rental of its own: rounding and minimum apply to every attempt, and the time between attempts is not billed.

    Args:
        wall_s: Time from the start of the attempt to its end row, or to its last heartbeat if it was lost [s]. It
            includes start-up, compile, evaluation and checkpoints, and excludes the time in a queue.
        price: Price entry with the rounding rule.
    """
    # Differences of clock readings have rounding errors, which must not add another billed unit.
    granules = math.ceil(round(wall_s / price.billing_granularity_s, 6))
    return float(max(price.billing_minimum_s, granules * price.billing_granularity_s))


def billed_instances(devices: int, machines: int | None, price: Price) -> float:
    """Return the number of instances that a run pays for.

    Vendors rent whole instances, so a run pays for ``max(ceil(devices / price.accelerators), machines)`` of them, even
    if some of their accelerators are idle. Hardware that the user owns is shared: there, a run pays for the share that
    its processes use.

    Args:
        devices: Accelerators of the run on all machines; without accelerators, its machines.
        machines: Machines of the run. If the number is unknown (None), the result is the fewest instances that have
            so many accelerators.
        price: Price entry.
    """
    share = devices / price.accelerators
    return share if price.market == OWNED else float(max(math.ceil(share), machines or 1))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class EnergyCost:
    """Energy and its cost, for hardware that the user owns."""

    kwh: float
    """Energy [kWh]."""

    usd: float
    """Its price [USD]."""

    basis: Literal["measured", "nominal", "mixed"]
    """How the energy is known. It was measured (only parts with a meter count), or it is the nominal power of the
    instance times the time of the run, or some attempts were measured and the others were not."""


def energy_cost(
    attempt_wall_s: Sequence[float],
    price: Price,
    *,
    devices: int,
    machines: int | None,
    attempt_kwh: Sequence[float | None] | None = None,
) -> EnergyCost | None:
    """Return the cost of a run's energy on hardware that the user owns, as the sum over its attempts.

    Args:
        attempt_wall_s: Wall-clock time of each attempt [s]; see :func:`billable_seconds`.
        price: Price entry of the run's instance.
        devices: See :func:`billed_instances`.
        machines: See :func:`billed_instances`.
        attempt_kwh: Measured energy of each attempt [kWh]; for None, the nominal power of the entry is used. None as a
            whole if no attempt was measured.

    Returns:
        The cost; None if the price includes the energy already, or the energy of an attempt is unknown.
    """
    measured = [None] * len(attempt_wall_s) if attempt_kwh is None else attempt_kwh
    instances = billed_instances(devices, machines, price)
    kwh: list[float] = []
    for wall_s, own_kwh in zip(attempt_wall_s, measured, strict=True):
        if own_kwh is not None:
            kwh.append(own_kwh)
        elif price.power_w is not None:
            kwh.append(price.power_w / 1000.0 * instances * wall_s / 3600.0)
    if price.usd_per_kwh is None or len(kwh) < len(attempt_wall_s):
        return None
    known = sum(own_kwh is not None for own_kwh in measured)
    basis: Literal["measured", "nominal", "mixed"] = (
        "nominal" if not known else "measured" if known == len(measured) else "mixed"
    )
    total_kwh = math.fsum(kwh)
    return EnergyCost(kwh=total_kwh, usd=total_kwh * price.usd_per_kwh, basis=basis)


def billable_usd(
    attempt_wall_s: Sequence[float],
    price: Price,
    *,
    devices: int,
    machines: int | None,
    attempt_kwh: Sequence[float | None] | None = None,
) -> float | None:
    """Return the spend of a run over all its attempts, failed and preempted ones included [USD].

    ``sum(billable_seconds) / 3600 * billed_instances * usd_per_hour``, and for hardware that the user owns, also the
    energy, see :func:`energy_cost`.

    Args:
        attempt_wall_s: Wall-clock time of each attempt [s]; see :func:`billable_seconds`.
        price: Price entry of the run's instance.
        devices: See :func:`billed_instances`.
        machines: See :func:`billed_instances`.
        attempt_kwh: Measured energy of each attempt [kWh]; used only for hardware that the user owns.

    Returns:
        None if the run is unpriced, or an energy that it needs is unknown. 0 if the run is priced and made no attempt.
    """
    billed_s = math.fsum(billable_seconds(wall_s, price) for wall_s in attempt_wall_s)
    instances = billed_instances(devices, machines, price)
    energy = energy_cost(attempt_wall_s, price, devices=devices, machines=machines, attempt_kwh=attempt_kwh)
    if price.usd_per_hour is None or (price.usd_per_kwh is not None and energy is None):
        return None
    return billed_s / 3600.0 * instances * price.usd_per_hour + (0.0 if energy is None else energy.usd)


def ratio(numerator: float | None, denominator: float | None, scale: float = 1.0) -> float | None:
    """Return the quotient of two figures, such as a throughput.

    Args:
        numerator: The one figure.
        denominator: The other one.
        scale: Factor of the result, such as 60 for a rate per minute.

    Returns:
        None when a figure is missing or the denominator is 0.
    """
    return None if numerator is None or not denominator else scale * (numerator / denominator)


def evaluation_share(evaluate_s: float | None, wall_s: float | None) -> float | None:
    """Return the fraction of wall-clock time that held-out evaluation took [1].

    Args:
        evaluate_s: Seconds in the phase ``evaluate`` [s].
        wall_s: Wall-clock seconds of the same attempts, all phases [s].

    Returns:
        None when a value is missing or no time passed, or if evaluation took longer than the whole, which only a forged
        journal says.
    """
    share = ratio(evaluate_s, wall_s)
    return None if share is None or share > 1.0 else share


def sum_if_known(amounts: Sequence[float | None]) -> float | None:
    """Return the sum of some amounts; ``None`` if one of them is unknown."""
    known = [amount for amount in amounts if amount is not None]
    return math.fsum(known) if len(known) == len(amounts) else None


def pareto_front[Item](items: Sequence[Item], read: Callable[[Item], tuple[float, float] | None]) -> list[Item]:
    """Return the items that no other item beats: none is at least as fast and as cheap, and better in one of the two.

    Args:
        items: What is compared.
        read: Returns the time and the cost of an item, in any units; None if one of them is unknown.

    Returns:
        The fastest first, without the items whose time or cost is unknown.
    """
    known = [(figures, item) for item in items if (figures := read(item)) is not None]
    return [
        item
        for (time, cost), item in sorted(known, key=lambda each: each[0])
        if not any(t <= time and c <= cost and (t, c) != (time, cost) for (t, c), _ in known)
    ]
