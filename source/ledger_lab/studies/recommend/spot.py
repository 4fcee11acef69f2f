"""Spot machines: what preemption and restarts add to the time and the cost of a training.

The overhead is measured on spot machines of the ledger. It is never assumed: without a measured preemption, there is no
price of spot machines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ledger_lab.ledger.costs import Price
from ledger_lab.studies.recommend.estimates import Estimate
from ledger_lab.studies.recommend.options import Basis, Option

SUFFIX = "-spot"
"""End of the name of a spot entry. The rest is the name of the on-demand entry."""

_DRAWS = 4000


@dataclass(frozen=True, kw_only=True)
class SpotHistory:
    """What happened to a run on a spot machine."""

    run_id: str
    wall_s: float
    """Billed time of all attempts [s]."""
    extra_s: float
    """Part of it that restarts took, with what was trained twice [s]."""
    queue_s: float | None
    """Time in queues [s]; it is not billed. ``None`` if no scheduler told it."""
    preemptions: int
    """Attempts that were preempted, or lost before another attempt."""
    restarts: int
    """How many of them another attempt followed. Only these tell what a preemption costs."""


@dataclass(frozen=True, kw_only=True)
class SpotOverhead:
    """Overhead of spot machines, as factors with intervals."""

    cost: tuple[float, float, float]
    """Billed time ÷ time without preemption: the figure, and the ends of its interval."""
    time: tuple[float, float, float]
    """The same with the time in queues, as far as it is known."""
    unknown_waits: int
    """Runs whose time in queues is unknown."""
    preemptions: int
    hours: float
    """Hours of all spot runs without the overhead."""
    run_ids: tuple[str, ...]


def spot_overhead(histories: Sequence[SpotHistory], confidence: float = 0.95) -> SpotOverhead:
    """Measure the overhead of preemption.

    The number of preemptions is taken to be Poisson distributed, with Jeffreys' prior of its rate. A preemption that no
    attempt followed is taken to cost as much as the others.

    Args:
        histories: All runs of the ledger on spot machines.
        confidence: Confidence of the intervals, in (0, 1).

    Raises:
        ValueError: If no restart after a preemption was measured. The message says so.
    """
    preemptions, restarts = sum(each.preemptions for each in histories), sum(each.restarts for each in histories)
    useful_s = math.fsum(each.wall_s - each.extra_s for each in histories)
    if not restarts or useful_s <= 0:
        raise ValueError(
            "spot machines are not priced, because no run on a spot machine of the ledger was resumed after a "
            "preemption, so the overhead was not measured"
        )
    extra_s = math.fsum(each.extra_s for each in histories) * preemptions / restarts
    waits_s = [each.queue_s for each in histories if each.queue_s is not None]
    rates = np.random.default_rng(0).gamma(preemptions + 0.5, size=_DRAWS) / preemptions
    low, high = np.quantile(rates, ((1 - confidence) / 2, (1 + confidence) / 2))

    def factor(overhead_s: float) -> tuple[float, float, float]:
        share = overhead_s / useful_s
        return 1 + share, 1 + float(low) * share, 1 + float(high) * share

    return SpotOverhead(
        cost=factor(extra_s),
        time=factor(extra_s + math.fsum(waits_s)),
        unknown_waits=len(histories) - len(waits_s),
        preemptions=preemptions,
        hours=useful_s / 3600,
        run_ids=tuple(each.run_id for each in histories),
    )


def spot_options(
    options: Sequence[Option], prices: Mapping[str, Price], book: Mapping[str, Price], overhead: SpotOverhead
) -> list[Option]:
    """Return measured options at the spot prices of their instances, unless they were measured there, too.

    Args:
        options: Measured options.
        prices: The prices that their runs were billed with, by instance.
        book: The price book.
        overhead: Overhead of spot machines.
    """
    found = []
    measured = {option.configuration for option in options}
    for option in options:
        name = option.configuration.instance
        here, spot = prices.get(name), book.get(f"{name}{SUFFIX}")
        if here is None or spot is None or spot.market != "spot" or here.market == "spot":
            continue
        if not here.usd_per_hour or not spot.usd_per_hour or here.accelerators != spot.accelerators:
            continue
        configuration = replace(option.configuration, instance=spot.instance)
        if configuration in measured:
            continue
        cheaper = spot.usd_per_hour / here.usd_per_hour
        times = "preemption" if overhead.preemptions == 1 else "preemptions"
        said = f"{overhead.preemptions} {times} in {overhead.hours:.3g} h on spot machines"
        if overhead.unknown_waits:
            unknown = "1 run" if overhead.unknown_waits == 1 else f"{overhead.unknown_waits} runs"
            said += f", without the time in queues of {unknown}, which is unknown"
        found.append(
            replace(
                option,
                configuration=configuration,
                basis=Basis.SPOT,
                time=None if option.time is None else _with(option.time, overhead.time),
                cost=None if option.cost is None else _with(option.cost.times(cheaper), overhead.cost),
                notes=(*option.notes, f"overhead from {said}"),
            )
        )
    return found


def _with(figure: Estimate, factor: tuple[float, float, float]) -> Estimate:
    """Return a figure with an overhead; their uncertainties are independent."""
    grown = figure.times(factor[0])
    wider = tuple(
        grown.value * math.exp(sign * math.hypot(math.log(end / grown.value), math.log(of_factor / factor[0])))
        for sign, end, of_factor in ((-1, grown.interval[0], factor[1]), (1, grown.interval[1], factor[2]))
    )
    return replace(grown, interval=(wider[0], wider[1]))
