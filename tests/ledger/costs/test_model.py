"""Billed time, denominators of rates, and costs that are undefined."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ledger_lab.ledger.costs.cohorts import RunCost, cohort_cost
from ledger_lab.ledger.costs.model import (
    EnergyCost,
    billable_seconds,
    billable_usd,
    billed_instances,
    energy_cost,
    evaluation_share,
    ratio,
)
from ledger_lab.ledger.costs.prices import OWNED, Price


def price(
    usd_per_hour: float | None = 36.0, *, accelerators: int = 8, granularity_s: float = 1, minimum_s: float = 0
) -> Price:
    """Build a price entry."""
    return Price(
        instance="test",
        accelerators=accelerators,
        usd_per_hour=usd_per_hour,
        market="unpriced" if usd_per_hour is None else "custom",
        billing_granularity_s=granularity_s,
        billing_minimum_s=minimum_s,
        source=None if usd_per_hour is None else "test",
        date=None if usd_per_hour is None else "2026-01-01",
    )


def run(name: str, usd: float | None, *, reached: bool = False, failed: bool = False) -> RunCost:
    """Build the cost of one run."""
    return RunCost(run=name, usd=usd, reached_target=reached, failed=failed)


@pytest.mark.parametrize(
    ("wall_s", "granularity_s", "minimum_s", "billed_s"),
    [
        (90.0, 1, 60, 90),
        (90.2, 1, 60, 91),
        (59.0, 1, 60, 60),
        (0.0, 1, 60, 60),
        (0.0, 1, 0, 0),
        (60.0, 60, 60, 60),
        (60.5, 60, 60, 120),
        (1.0, 3600, 0, 3600),
        (3600.0, 3600, 0, 3600),
        (100.0, 60, 90, 120),
        (10.0, 60, 90, 90),
        (0.25, 0.1, 0, 0.3),
    ],
)
def test_billed_time_is_rounded_up_and_has_a_minimum(
    wall_s: float, granularity_s: float, minimum_s: float, billed_s: float
) -> None:
    entry = price(granularity_s=granularity_s, minimum_s=minimum_s)
    assert billable_seconds(wall_s, entry) == pytest.approx(billed_s)


def test_rounding_errors_do_not_add_a_billed_unit() -> None:
    start_s = 1.7e9 + 0.1
    assert billable_seconds((start_s + 60.0) - start_s, price(granularity_s=60)) == 60.0
    assert billable_seconds(60.0 + 1e-9, price(granularity_s=60)) == 60.0


@pytest.mark.parametrize(
    ("devices", "machines", "instances"),
    [
        (1, 1, 1),
        (8, 1, 1),
        (2, 2, 2),
        (16, 2, 2),
        (3, 3, 3),
        (1, None, 1),
        (8, None, 1),
        (9, None, 2),
        (16, None, 2),
        (17, None, 3),
    ],
)
def test_whole_instances_are_rented_and_each_machine_is_one(
    devices: int, machines: int | None, instances: float
) -> None:
    assert billed_instances(devices, machines, price(accelerators=8)) == instances


def test_an_accelerator_priced_alone_is_paid_for_each_process() -> None:
    assert billed_instances(8, 1, price(accelerators=1)) == 8


def test_own_machines_are_paid_for_by_the_share_of_their_accelerators() -> None:
    assert billed_instances(1, 1, owned()) == billed_instances(1, None, owned()) == 0.5
    assert billed_instances(2, 2, owned()) == 1.0


def test_spend_adds_every_attempt_and_every_instance() -> None:
    entry = price(36.0, accelerators=8, minimum_s=60)
    assert billable_usd([3600.0], entry, devices=8, machines=1) == pytest.approx(36.0)
    assert billable_usd([3600.0], entry, devices=1, machines=1) == pytest.approx(36.0)
    assert billable_usd([3600.0], entry, devices=16, machines=2) == pytest.approx(72.0)
    assert billable_usd([3600.0], entry, devices=2, machines=2) == pytest.approx(72.0)
    assert billable_usd([100.0, 0.5, 39.5], entry, devices=8, machines=1) == pytest.approx((100 + 60 + 60) * 0.01)


def test_a_run_without_attempts_cost_nothing_and_an_unpriced_run_is_unknown() -> None:
    assert billable_usd([], price(), devices=1, machines=1) == 0.0
    assert billable_usd([3600.0], price(0.0), devices=1, machines=1) == 0.0
    assert billable_usd([3600.0], price(None), devices=1, machines=1) is None
    assert billable_usd([], price(None), devices=1, machines=1) is None


def owned(power_w: float | None = 500.0) -> Price:
    """Build the entry of two accelerators of one's own: 1 USD an hour, and 0.4 USD per kWh."""
    return Price(
        instance="mine",
        market=OWNED,
        accelerators=2,
        billing_granularity_s=1,
        billing_minimum_s=0,
        purchase_usd=8766.0,
        lifetime_years=2,
        utilization=0.5,
        usd_per_kwh=0.4,
        power_w=power_w,
        source="test",
        date="2026-01-01",
    )


def test_owned_hardware_costs_its_share_and_the_energy_of_all_attempts() -> None:
    assert billable_usd([3600.0, 3600.0], owned(), devices=2, machines=1) == pytest.approx(2 * 1.0 + 1.0 * 0.4)
    assert billable_usd([3600.0], owned(), devices=1, machines=1) == pytest.approx(0.5 * 1.0 + 0.25 * 0.4)
    assert billable_usd([3600.0], owned(), devices=2, machines=1, attempt_kwh=[3.0]) == pytest.approx(1.0 + 3.0 * 0.4)


def test_measured_energy_replaces_nominal_power() -> None:
    nominal = energy_cost([3600.0], owned(), devices=2, machines=1)
    assert nominal == EnergyCost(kwh=pytest.approx(0.5), usd=pytest.approx(0.2), basis="nominal")
    measured = energy_cost([3600.0], owned(), devices=2, machines=1, attempt_kwh=[0.0])
    assert measured == EnergyCost(kwh=0.0, usd=0.0, basis="measured")


def test_energies_of_metered_and_unmetered_attempts_add_up() -> None:
    both = energy_cost([3600.0, 7200.0], owned(), devices=2, machines=1, attempt_kwh=[0.2, None])
    assert both == EnergyCost(kwh=pytest.approx(0.2 + 1.0), usd=pytest.approx(1.2 * 0.4), basis="mixed")
    assert energy_cost([3600.0, 7200.0], owned(power_w=None), devices=2, machines=1, attempt_kwh=[0.2, None]) is None
    with pytest.raises(ValueError, match="argument 2"):
        energy_cost([3600.0, 7200.0], owned(), devices=2, machines=1, attempt_kwh=[0.2])


def test_unknown_energy_makes_the_cost_unknown() -> None:
    assert energy_cost([3600.0], owned(power_w=None), devices=2, machines=1) is None
    assert billable_usd([3600.0], owned(power_w=None), devices=2, machines=1) is None
    assert billable_usd([3600.0], owned(power_w=None), devices=2, machines=1, attempt_kwh=[1.0]) == pytest.approx(1.4)


def test_a_rented_instance_has_its_energy_in_its_price() -> None:
    assert energy_cost([3600.0], price(), devices=1, machines=1, attempt_kwh=[5.0]) is None
    assert billable_usd([3600.0], price(), devices=1, machines=1, attempt_kwh=[5.0]) == pytest.approx(36.0)


def test_a_measured_zero_is_not_missing() -> None:
    assert ratio(300, 120.0, 60.0) == pytest.approx(150.0)
    assert (ratio(0, 4.0), evaluation_share(0.0, 4.0)) == (0.0, 0.0)


@pytest.mark.parametrize("rate", [ratio, evaluation_share])
def test_a_missing_value_or_an_empty_denominator_leaves_the_rate_missing(
    rate: Callable[[int | None, int | None], float | None],
) -> None:
    assert rate(None, 10) is None
    assert rate(10, None) is None
    assert rate(10, 0) is None
    assert rate(0, 0) is None


def test_evaluation_cannot_take_longer_than_the_whole() -> None:
    assert evaluation_share(61.0, 60.0) is None


def test_failed_runs_are_paid_by_those_that_reached_the_target() -> None:
    cost = cohort_cost([run("a", 0.02, reached=True), run("b", 0.06), run("c", 0.01, failed=True)])
    assert (cost.runs, cost.failed_runs, cost.target_reaching_runs) == (3, 1, 1)
    assert cost.spend_usd == pytest.approx(0.09)
    assert cost.usd_per_target_reaching_checkpoint == pytest.approx(0.09)
    assert cost.undefined_reason is None
    assert cost.at_least_usd is None
    assert cost.unpriced_runs == ()


def test_without_a_target_reaching_run_the_spend_is_a_lower_bound() -> None:
    cost = cohort_cost([run("a", 1.0), run("b", 2.5, failed=True)])
    assert cost.usd_per_target_reaching_checkpoint is None
    assert cost.undefined_reason == "no run reached the target"
    assert cost.spend_usd == cost.at_least_usd == pytest.approx(3.5)


@pytest.mark.parametrize("reached", [True, False])
def test_one_unpriced_run_leaves_the_cohort_without_a_sum(reached: bool) -> None:
    cost = cohort_cost([run("a", 1.0, reached=reached), run("b", None), run("c", None)])
    assert cost.spend_usd is None
    assert cost.usd_per_target_reaching_checkpoint is None
    assert cost.at_least_usd is None
    assert cost.unpriced_runs == ("b", "c")
    assert cost.undefined_reason is not None
    assert cost.undefined_reason.startswith("2 of 3 runs unpriced (b, c)")
    assert ("no run reached the target" in cost.undefined_reason) is not reached


def test_a_cohort_has_runs_and_each_of_them_once() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        cohort_cost([])
    with pytest.raises(ValueError, match="twice"):
        cohort_cost([run("a", 1.0), run("a", 1.0)])
