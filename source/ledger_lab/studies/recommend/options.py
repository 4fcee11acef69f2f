"""Configurations that a task can be trained with, and what is known about each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ledger_lab.ledger import Status
from ledger_lab.ledger.comparability import differing
from ledger_lab.ledger.costs import FEWEST_RUNS
from ledger_lab.studies.recommend.estimates import Estimate, cost_per_target, time_to_target
from ledger_lab.studies.scaling.points import ScaledRun

_TOLD = ("code_sha256", "git", "price")
"""Fields whose differences have notes of their own."""


class Basis(StrEnum):
    """Where the figures of an option come from."""

    MEASURED = "measured"
    """Runs of this very configuration."""
    PREDICTED = "predicted"
    """The laws of rate and samples, fitted to runs of other sizes."""


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """What a user decides before a training."""

    instance: str
    """Entry of the price book."""
    rl_library: str
    physics: str
    treatment: str
    """What else was changed, in the words of the command line; empty for nothing."""
    processes: int
    machines: int | None
    num_envs: int
    """Environments of each process."""
    device: str
    """``cpu`` or ``cuda``."""
    hardware: str | None
    """The machine of :attr:`~ledger_lab.ledger.RunDeclared.machine`; ``None`` if unknown."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """A configuration with its time and its cost to the target."""

    configuration: Configuration
    basis: Basis
    run_ids: tuple[str, ...]
    """The runs behind it."""
    reached: int
    """How many of them reached the target."""
    time: Estimate | None
    """Median wall-clock time to the target [s]; ``None`` if too few runs reached it."""
    cost: Estimate | None
    """Cost per target-reaching checkpoint [USD]; ``None`` if unpriced, or too few runs reached the target."""
    notes: tuple[str, ...] = ()
    """What a reader must know about the figures."""
    ranked: bool = True
    """Whether there are enough runs to rank it."""


def configuration_of(run: ScaledRun) -> Configuration:
    """Return the configuration that a run was trained with.

    Args:
        run: The run.
    """
    return Configuration(
        instance=run.instance,
        rl_library=run.rl_library,
        physics=run.physics,
        treatment=run.treatment,
        processes=run.processes,
        machines=run.machines,
        num_envs=run.num_envs,
        device=run.device.partition(":")[0],
        hardware=run.hardware,
    )


def by_configuration(runs: Sequence[ScaledRun]) -> dict[Configuration, list[ScaledRun]]:
    """Sort runs by their configurations.

    Args:
        runs: The runs.
    """
    groups: dict[Configuration, list[ScaledRun]] = {}
    for each in runs:
        groups.setdefault(configuration_of(each), []).append(each)
    return groups


def measured_options(runs: Sequence[ScaledRun], confidence: float = 0.95) -> list[Option]:
    """Return an option for each configuration that was trained.

    Args:
        runs: Runs with the same target on the same panel.
        confidence: Confidence of the intervals, in (0, 1).
    """
    groups = by_configuration(runs)
    return [_measured(configuration, own, confidence) for configuration, own in groups.items()]


def _cost_notes(runs: Sequence[ScaledRun]) -> list[str]:
    """Return why the costs of runs of one configuration may not be comparable with each other, or with others."""
    notes = []
    prices = sorted({run.usd_per_hour for run in runs if run.usd_per_hour is not None})
    if len(prices) > 1:
        listed = " and ".join(f"${price:g}" for price in (prices[0], prices[-1]))
        notes.append(f"its cost mixes {len(prices)} prices, {listed} per hour: name runs of one price")
    if longer := sum(run.reached and run.status == Status.COMPLETED for run in runs):
        notes.append(f"its cost includes what {longer} of its runs trained on after the target")
    return notes


def _measured(configuration: Configuration, runs: Sequence[ScaledRun], confidence: float) -> Option:
    """Return the option of one configuration.

    A run that something outside of it ended short of the target did not reach it, at the price of its time: a user may
    have given it up because it was hopeless. Its time to the target is only known to be longer.
    """
    notes: list[str] = []
    time = cost = None
    try:
        time = time_to_target(runs, confidence)
    except ValueError as error:
        notes.append(str(error))
    try:
        cost = cost_per_target(runs, confidence)
    except ValueError as error:
        notes += [] if str(error) in notes or time is None else [f"no cost: {error}"]
    notes += [] if cost is None else _cost_notes(runs)
    if interrupted := sum(run.interrupted for run in runs):
        notes.append(f"{interrupted} of its runs were interrupted, and count as short of the target")
    if names := differing([run.settings for run in runs], without=_TOLD):
        notes.append(f"its runs differ in {', '.join(names)}")
    if len(runs) < FEWEST_RUNS:
        notes.append(f"not ranked: it needs at least {FEWEST_RUNS} runs, and has {len(runs)}")
    return Option(
        configuration=configuration,
        basis=Basis.MEASURED,
        run_ids=tuple(run.run_id for run in runs),
        reached=sum(run.reached for run in runs),
        time=time,
        cost=cost,
        notes=tuple(notes),
        ranked=len(runs) >= FEWEST_RUNS,
    )
