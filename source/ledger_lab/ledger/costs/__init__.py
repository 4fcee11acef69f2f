"""Costs of runs and cohorts: prices of instances, and every cost and rate with its denominator."""

from ledger_lab.ledger.costs.bootstrap import percentile_levels
from ledger_lab.ledger.costs.cohorts import CohortCost, RunCost, cohort_cost
from ledger_lab.ledger.costs.cost_interval import FEWEST_RUNS, cost_draws, cost_interval, cost_ratio_interval
from ledger_lab.ledger.costs.cost_test import cost_p_value
from ledger_lab.ledger.costs.exact import exact_interval
from ledger_lab.ledger.costs.model import (
    EnergyCost,
    billable_seconds,
    billable_usd,
    billed_instances,
    energy_cost,
    env_steps_per_s,
    evaluation_share,
    sum_if_known,
    updates_per_min,
    usd_per_billion_env_steps,
)
from ledger_lab.ledger.costs.pareto import pareto_front
from ledger_lab.ledger.costs.permutation import least_p_value
from ledger_lab.ledger.costs.prices import LOCAL, OWNED, Price, load_price_book, load_prices, resolve_price
from ledger_lab.ledger.costs.time_to_target import (
    MedianTime,
    RunTime,
    TimeCurve,
    log_rank_p_value,
    median_time_to_target,
    restricted_mean_time,
    time_curve,
)

__all__ = [
    "FEWEST_RUNS",
    "LOCAL",
    "OWNED",
    "CohortCost",
    "EnergyCost",
    "MedianTime",
    "Price",
    "RunCost",
    "RunTime",
    "TimeCurve",
    "billable_seconds",
    "billable_usd",
    "billed_instances",
    "cohort_cost",
    "cost_draws",
    "cost_interval",
    "cost_p_value",
    "cost_ratio_interval",
    "energy_cost",
    "env_steps_per_s",
    "evaluation_share",
    "exact_interval",
    "least_p_value",
    "load_price_book",
    "load_prices",
    "log_rank_p_value",
    "median_time_to_target",
    "pareto_front",
    "percentile_levels",
    "resolve_price",
    "restricted_mean_time",
    "sum_if_known",
    "time_curve",
    "updates_per_min",
    "usd_per_billion_env_steps",
]
