"""Sorts runs into strong and weak scaling studies, and fits the laws to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ledger_lab.studies.scaling.batch import BatchFit, TargetRun
from ledger_lab.studies.scaling.laws import RateFit
from ledger_lab.studies.scaling.points import ScaledRun, ScalingPoint, ScalingStudy, Setting
from ledger_lab.studies.scaling.rates import Kind, Refusal, fit_rate, growth


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """Efficiency of a size, relative to the smallest size of its study. ``None`` means unknown.

    With ``N`` times as many processes, an efficiency of 1 means ``N`` times less time.
    """

    speed_up: float | None = None
    """Total rate ÷ that of the smallest size."""
    of_rate: float | None = None
    """Total rate per process ÷ that of the smallest size."""
    of_samples: float | None = None
    """Steps to the target of the smallest size ÷ steps to the target."""
    of_training: float | None = None
    """:attr:`of_rate` × :attr:`of_samples`: the efficiency of the training alone."""
    of_time: float | None = None
    """Time to the target of the smallest size ÷ time to the target, per process; with start-up and scoring."""


def find_studies(runs: Sequence[ScaledRun]) -> list[ScalingStudy]:
    """Sort runs into studies. A run can be a point of a strong and of a weak study.

    Args:
        runs: Runs, of any settings.

    Returns:
        For each setting, in the order of the first runs: the strong studies by their environments in all, the weak
        studies by their environments per process, and a study of all sizes that are in neither.
    """
    settings: dict[Setting, list[ScaledRun]] = {}
    for run in runs:
        settings.setdefault(run.setting, []).append(run)
    return [study for setting, members in settings.items() for study in _studies_of(setting, members)]


def efficiency(point: ScalingPoint, base: ScalingPoint) -> Efficiency:
    """Return the efficiency of a size.

    Args:
        point: The size.
        base: The smallest size of the study.
    """
    of_total = growth(point.processes, point.rates.fps_total, base.processes, base.rates.fps_total)
    steps, base_steps = (each.median_to_target(lambda run: run.steps_to_target) for each in (point, base))
    time_s, base_s = (each.median_to_target(lambda run: run.time_to_target_s) for each in (point, base))
    of_rate = None if of_total is None else of_total.efficiency
    of_samples = base_steps / steps if steps and base_steps else None
    of_time = base_s * base.processes / (time_s * point.processes) if time_s and base_s else None
    return Efficiency(
        speed_up=None if of_total is None else of_total.speed_up,
        of_rate=of_rate,
        of_samples=of_samples,
        of_training=None if of_rate is None or of_samples is None else of_rate * of_samples,
        of_time=of_time,
    )


def _studies_of(setting: Setting, runs: Sequence[ScaledRun]) -> list[ScalingStudy]:
    """Return the studies of one setting."""
    points = _points(runs)
    batch_law = _fit_batch(runs)
    found: list[tuple[Kind, list[ScalingPoint]]] = []
    totals = sorted({point.num_envs * point.processes for point in points})
    found += [(Kind.STRONG, [p for p in points if p.num_envs * p.processes == total]) for total in totals]
    found += [(Kind.WEAK, [p for p in points if p.num_envs == each]) for each in sorted({p.num_envs for p in points})]
    found = [(kind, members) for kind, members in found if len({point.processes for point in members}) > 1]
    covered = {id(point) for _, members in found for point in members}
    if rest := [point for point in points if id(point) not in covered]:
        found.append((Kind.OTHER, rest))
    return [
        ScalingStudy(setting=setting, kind=kind, points=tuple(own), rate_law=_fit_rate(kind, own), batch_law=batch_law)
        for kind, own in found
    ]


def _fit_rate(kind: Kind, points: Sequence[ScalingPoint]) -> RateFit | Refusal:
    """Fit the law of the rate, unless equally many processes ran on different numbers of machines."""
    machines: dict[int, set[int]] = {}
    for point in points:
        if point.machines is not None:
            machines.setdefault(point.processes, set()).add(point.machines)
    if several := next((size for size, counts in machines.items() if len(counts) > 1), None):
        counts = " and on ".join(map(str, sorted(machines[several])))
        return Refusal(
            f"{several} processes ran on {counts} machines, and a law has one rate for each number of processes: name "
            "the runs or cohorts of one of them"
        )
    return fit_rate(kind, [(run.processes, run.fps_total) for each in points for run in each.runs if run.fps_total])


def _points(runs: Iterable[ScaledRun]) -> list[ScalingPoint]:
    """Return the sizes of runs, the smallest first."""
    sizes: dict[tuple[int, int, int], list[ScaledRun]] = {}
    for run in runs:
        sizes.setdefault((run.processes, run.num_envs, run.machines or 0), []).append(run)
    return [
        ScalingPoint(processes=processes, machines=machines or None, num_envs=num_envs, runs=tuple(members))
        for (processes, num_envs, machines), members in sorted(sizes.items())
    ]


def _fit_batch(runs: Sequence[ScaledRun]) -> BatchFit | Refusal:
    """Fit the steps to the target against the batch; runs that missed it, or were interrupted, count as censored."""
    trained = [run for run in runs if run.identity.steps and not run.repeated]
    if any(run.minibatches is None for run in trained):
        return Refusal("with a replay memory, the size of a gradient step does not follow from the environments")
    try:
        return BatchFit(
            [
                TargetRun(
                    batch=run.batch,
                    samples=run.identity.steps,
                    reached=run.reached,
                    # A run that reaches the target with its last step has reached it.
                    limit=max(run.limit_steps, run.identity.steps) + 1 if run.reached else run.identity.steps,
                )
                for run in trained
            ]
        )
    except ValueError as error:
        return Refusal(str(error))
