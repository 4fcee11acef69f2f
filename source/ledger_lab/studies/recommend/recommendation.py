"""From runs to a recommendation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ledger_lab.errors import UserError
from ledger_lab.ledger import Status
from ledger_lab.ledger.costs import Price
from ledger_lab.studies.recommend.choice import Choice, Goal, Limits, choose, pareto_front
from ledger_lab.studies.recommend.options import Basis, Option, configuration_of, measured_options
from ledger_lab.studies.recommend.predicted import predicted_options
from ledger_lab.studies.scaling.points import ScaledRun

_CONFIDENCE = 0.95
_MOST_NAMED = 3
"""Most names of runs or cohorts in a message."""


@dataclass(frozen=True, kw_only=True)
class Yardstick:
    """What must be equal before configurations are ranked."""

    panel: str
    panel_id: str
    target_success: float
    measured_by: str = ""
    """As :attr:`~ledger_lab.studies.scaling.ScaledRun.measured_by`."""


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """What to train a task with."""

    task: str
    yardstick: Yardstick
    limits: Limits
    options: tuple[Option, ...]
    """Measured ones first, then predicted ones; each by time."""
    choices: tuple[Choice, ...]
    """For the least time, and for the least money; under a limit, only what it leaves to decide."""
    front: tuple[Option, ...]
    """The Pareto front of time and cost, the fastest first."""
    running: int
    """Runs that still go on, and are left out."""
    repeated: int
    """Further runs of the same trainings, of which only the cost counts."""
    never_began: int
    """Runs that were declared, but have no attempt, and that are left out."""
    remarks: tuple[str, ...]
    """What a reader must know about the whole."""


def of_one_yardstick(runs: Sequence[ScaledRun], target: float | None) -> list[ScaledRun]:
    """Return the runs that can be ranked together.

    Args:
        runs: Runs of one task; at least one.
        target: Success rate that they must have been trained to; ``None`` if all have the same.

    Raises:
        UserError: If no run has this target, or they were not trained to the same target on the same panel.
    """
    task = runs[0].task
    found = [each for each in runs if target is None or abs(each.target_success - target) < 1e-9]
    if not found:
        targets = ", ".join(f"{value:.12g}" for value in sorted({each.target_success for each in runs}))
        raise UserError(f"--target {target:.12g}: no run of {task} was trained to it; its runs have --target {targets}")
    groups: dict[Yardstick, list[ScaledRun]] = {}
    for each in found:
        groups.setdefault(_yardstick(each), []).append(each)
    if len(groups) > 1:
        differs = [
            name
            for name, values in (
                ("target", {each.target_success for each in groups}),
                ("panel", {each.panel_id for each in groups}),
            )
            if len(values) > 1
        ] or ["version of the verdict's rule, --stop_at_target or --timing"]
        way = "give --target" if differs == ["target"] else "name the runs or cohorts of one group"
        listed = "; ".join(_group_words(yardstick, own) for yardstick, own in groups.items())
        raise UserError(
            f"recommend {task}: runs with another {' or '.join(differs)} can't be ranked together, so {way}: {listed}"
        )
    return found


def recommend(
    runs: Sequence[ScaledRun],
    book: Mapping[str, Price],
    limits: Limits,
    *,
    never_began: int = 0,
) -> Recommendation:
    """Recommend a configuration.

    Args:
        runs: Runs with the same target on the same panel; at least one.
        book: The price book.
        limits: What the training may take.
        never_began: Runs of the task without an attempt, which are not among the runs.

    Raises:
        UserError: If a budget is given and no machine has a price.
    """
    running = sum(each.status == Status.RUNNING for each in runs)
    of_all = [each for each in runs if each.status != Status.RUNNING and not each.repeated]
    ended = [each for each in of_all if each.code == of_all[-1].code]
    prices = {each.price.instance: each.price for each in runs}
    unpriced = sorted(name for name, price in prices.items() if price.usd_per_hour is None)
    if limits.budget_usd is not None and len(unpriced) == len(prices):
        raise UserError(f"--budget: {', '.join(unpriced)} has no price: give --usd_per_hour, or --instance")
    remarks = [
        f"{name} has no price, so its cost is not ranked: give --usd_per_hour, or train with --instance"
        for name in unpriced
    ]
    if older := len(of_all) - len(ended):
        remarks.append(
            f"left out: {older} runs by other versions of the code or its packages than that of the newest run, which "
            "may differ in speed: to rank them, name the runs or cohorts of one version"
        )

    def options_with(confidence: float) -> list[Option]:
        predicted = predicted_options(ended, book, confidence)
        return [*_by_time(measured_options(ended, confidence)), *_by_time(predicted)]

    def with_all(choice: Choice) -> Choice:
        if choice.option is None or choice.among < 2:
            return choice
        wanted, confidence = choice.option.configuration, 1 - (1 - _CONFIDENCE) / choice.among
        if choice.option.basis is Basis.MEASURED:  # depends on its own runs alone
            options = measured_options([each for each in ended if configuration_of(each) == wanted], confidence)
        else:
            options = options_with(confidence)
        return replace(choice, together=next(each for each in options if each.configuration == wanted))

    options = options_with(_CONFIDENCE)
    goals = {
        (False, False): (Goal.TIME, Goal.MONEY),
        (True, False): (Goal.MONEY,),
        (False, True): (Goal.TIME,),
        (True, True): (Goal.TIME, Goal.MONEY),
    }[limits.deadline_s is not None, limits.budget_usd is not None]
    return Recommendation(
        task=runs[0].task,
        yardstick=_yardstick(runs[0]),
        limits=limits,
        options=tuple(options),
        choices=tuple(with_all(choose(options, goal, limits)) for goal in goals),
        front=tuple(pareto_front(options)),
        running=running,
        repeated=len(runs) - len(of_all) - running,
        never_began=never_began,
        remarks=tuple(remarks),
    )


def _yardstick(run: ScaledRun) -> Yardstick:
    return Yardstick(
        panel=run.panel,
        panel_id=run.panel_id,
        target_success=run.target_success,
        measured_by=run.measured_by,
    )


def _group_words(yardstick: Yardstick, runs: Sequence[ScaledRun]) -> str:
    """Return a group with its names for the command line."""
    names = list(dict.fromkeys(each.cohort or each.run_id for each in runs))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return (
        f"{len(runs)} with panel {yardstick.panel} ({yardstick.panel_id[:11]}…) and --target "
        f"{yardstick.target_success:.12g} ({', '.join(names[:_MOST_NAMED])}{more})"
    )


def _by_time(options: Sequence[Option]) -> list[Option]:
    """Sort options, the fastest first; those without a time last."""
    return sorted(options, key=lambda each: (each.time is None, 0.0 if each.time is None else each.time.value))
