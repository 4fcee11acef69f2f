"""What a run is worth: prices of instances, and the denominators of every cost and rate."""

from ledger_lab.costs.model import (
    CohortCost,
    RunCost,
    billable_seconds,
    billable_usd,
    billed_instances,
    cohort_cost,
    env_steps_per_s,
    evaluation_share,
    updates_per_min,
    usd_per_billion_env_steps,
)
from ledger_lab.costs.prices import LOCAL, Price, load_prices, resolve_price

__all__ = [
    "LOCAL",
    "CohortCost",
    "Price",
    "RunCost",
    "billable_seconds",
    "billable_usd",
    "billed_instances",
    "cohort_cost",
    "env_steps_per_s",
    "evaluation_share",
    "load_prices",
    "resolve_price",
    "updates_per_min",
    "usd_per_billion_env_steps",
]
