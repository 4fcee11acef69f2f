"""Spot machines cost what their preemptions add."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger_lab.studies.recommend.options import Basis, PricedRun, measured_options
from ledger_lab.studies.recommend.spot import SpotHistory, spot_options, spot_overhead
from tests.fakes.scaled import PRICE, scaled

ON_DEMAND = replace(PRICE, instance="m", market="on-demand", accelerator="A", region="r")
SPOT = replace(ON_DEMAND, instance="m-spot", market="spot", usd_per_hour=0.9)
HISTORY = SpotHistory(run_id="s", wall_s=4000.0, extra_s=400.0, queue_s=360.0, preemptions=4, restarts=4)


def test_overhead_is_measured_or_refused() -> None:
    found = spot_overhead([HISTORY])
    assert found.cost[0] == pytest.approx(4000 / 3600) and found.time[0] == pytest.approx(4360 / 3600)
    assert found.cost[1] < found.cost[0] < found.cost[2]
    with pytest.raises(ValueError, match="no run on a spot machine of the ledger was resumed after a preemption"):
        spot_overhead([replace(HISTORY, preemptions=0, restarts=0)])
    with pytest.raises(ValueError, match="spot machines are not priced"):
        spot_overhead([])


def test_a_measured_machine_is_priced_as_spot() -> None:
    runs = [
        PricedRun(run=scaled(steps=4000 + 100 * seed, run_id=f"{seed}", instance="m"), price=ON_DEMAND)
        for seed in range(5)
    ]
    measured = measured_options(runs)
    (found,) = spot_options(measured, {"m": ON_DEMAND}, {"m-spot": SPOT}, spot_overhead([HISTORY]))
    here = measured[0]
    assert found.basis is Basis.SPOT and found.configuration.instance == "m-spot"
    assert found.cost is not None and here.cost is not None and found.time is not None and here.time is not None
    assert found.cost.value == pytest.approx(here.cost.value / 4 * 4000 / 3600)
    assert found.time.value == pytest.approx(here.time.value * (4360 / 3600))
    assert found.cost.deviation > here.cost.deviation
    assert not spot_options(measured, {"m": ON_DEMAND}, {"other-spot": SPOT}, spot_overhead([HISTORY]))


def test_a_preemption_that_no_attempt_followed_costs_what_the_others_do() -> None:
    with pytest.raises(ValueError, match="the overhead was not measured"):
        spot_overhead([replace(HISTORY, extra_s=0.0, restarts=0)])
    found = spot_overhead([HISTORY, replace(HISTORY, wall_s=3600.0, extra_s=0.0, preemptions=4, restarts=0)])
    assert found.cost[0] == pytest.approx(1 + 400 * 8 / 4 / 7200)


def test_a_measured_spot_machine_is_not_estimated() -> None:
    both = {"m": ON_DEMAND, "m-spot": SPOT}
    runs = [
        PricedRun(run=scaled(steps=4000 + 100 * seed, run_id=f"{name}{seed}", instance=name), price=price)
        for name, price in both.items()
        for seed in range(5)
    ]
    assert not spot_options(measured_options(runs), both, both, spot_overhead([HISTORY]))


def test_an_unknown_time_in_queues_is_told_and_is_no_zero() -> None:
    unknown = replace(HISTORY, run_id="u", queue_s=None)
    found = spot_overhead([HISTORY, unknown])
    assert found.unknown_waits == 1 and found.time[0] == pytest.approx((8000 + 360) / 7200)
    runs = [
        PricedRun(run=scaled(steps=4000 + 100 * seed, run_id=f"{seed}", instance="m"), price=ON_DEMAND)
        for seed in range(5)
    ]
    (option,) = spot_options(measured_options(runs), {"m": ON_DEMAND}, {"m-spot": SPOT}, found)
    assert option.notes[-1].endswith("without the time in queues of 1 run, which is unknown")
    assert spot_overhead([HISTORY]).unknown_waits == 0
