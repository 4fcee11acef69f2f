"""Simulated trainings as points of scaling studies."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from benchmarks.synthetic_ledger import declared as declaration
from ledger_lab.ledger import Run, RunDeclared
from ledger_lab.ledger.costs.prices import Price
from ledger_lab.reports import RunSummary, summarize_run
from ledger_lab.studies.scaling.points import Identity, ScaledRun


@cache
def _declared(price: Price, processes: int) -> tuple[RunDeclared, RunSummary]:
    """Return the declaration of a run that never ends without its target, and its summary before its first attempt."""
    declared = replace(
        declaration("simulated", 0), price=price.to_dict(), world_size=processes, machines=1, cohort=None,
        max_iterations=10**9, num_envs=64, horizon=16,
    )  # fmt: skip
    return declared, summarize_run(Run(Path(), declared, datetime.now(UTC), (), (), ()))


def simulated_run(
    run_id: str, price: Price, identity: Identity, *, processes: int = 1, reached: bool = True, wall_s: float
) -> ScaledRun:
    """Return a run with 64 environments in each process.

    Args:
        run_id: Its id.
        price: Its price.
        identity: Where its time went until the target, or until something ended it.
        processes: Its processes.
        reached: Whether it reached the target.
        wall_s: Its whole time [s].
    """
    declared, summary = _declared(price, processes)
    return ScaledRun(
        declared=declared,
        summary=replace(
            summary,
            run_id=run_id,
            wall_s=wall_s,
            env_steps=identity.steps,
            wall_to_target_s=identity.time_s if reached else None,
            env_steps_per_s=identity.rate,
            billable_usd=wall_s / 3600 * (price.usd_per_hour or 0.0),
            status="target_reached" if reached else "interrupted",
            unfinished=not reached,
        ),
        identity=identity,
        cost_to_target_usd=identity.time_s / 3600 * (price.usd_per_hour or 0.0) if reached else None,
    )
