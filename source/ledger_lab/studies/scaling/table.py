"""Tables of scaling studies: one row per size, and one per run."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from ledger_lab.reports.columns import Shown, TableCell, figure
from ledger_lab.studies.scaling.laws import Figure
from ledger_lab.studies.scaling.points import ScaledRun, ScalingPoint
from ledger_lab.studies.scaling.rates import SizeRates, growth
from ledger_lab.studies.scaling.studies import Efficiency, efficiency
from ledger_lab.units import MISSING, duration, percent, quantity, usd


class SizeFacts:
    """A size of a study, and the smallest size, to which speed-up and efficiency refer."""

    def __init__(
        self,
        rates: SizeRates,
        base: SizeRates | None,
        point: ScalingPoint | None = None,
        base_point: ScalingPoint | None = None,
    ) -> None:
        """Keep the size.

        Args:
            rates: Its rates.
            base: Rates of the smallest size; ``None`` if the sizes are in no strong or weak scaling.
            point: Its runs; ``None`` for published rates.
            base_point: Runs of the smallest size.
        """
        self.rates, self.base, self.point, self.base_point = rates, base, point, base_point

    @classmethod
    def of(cls, point: ScalingPoint, base: ScalingPoint | None) -> SizeFacts:
        """Return a size of a study of the ledger, and its smallest size."""
        return cls(point.rates, None if base is None else base.rates, point, base)

    @cached_property
    def efficiency(self) -> Efficiency:
        """Its efficiency."""
        if self.point is not None and self.base_point is not None:
            return efficiency(self.point, self.base_point)
        if self.base is None:
            return Efficiency()
        grown = growth(self.rates.processes, self.rates.fps_total, self.base.processes, self.base.fps_total)
        return Efficiency() if grown is None else Efficiency(speed_up=grown.speed_up, of_rate=grown.efficiency)

    def to_target(self, read: Callable[[ScaledRun], float | None]) -> float | None:
        """Return the median of a figure up to the target over its runs."""
        return None if self.point is None else self.point.median_to_target(read)


def _size[Value](read: Callable[[SizeFacts], Value], shown: Shown | None = None) -> Value:
    return figure(read, shown)


def _run[Value](read: Callable[[ScaledRun], Value], shown: Shown | None = None) -> Value:
    return figure(read, shown)


def size_name(processes: int, num_envs: int | None, machines: int | None = None) -> str:
    """Return a size in words: ``2 × 512``, which is processes × environments of each.

    Args:
        processes: Processes.
        num_envs: Environments of each; ``None`` if unknown.
        machines: Machines; named if there are several.
    """
    name = f"{processes}" if num_envs is None else f"{processes} × {num_envs}"
    return f"{name} on {machines} machines" if machines is not None and machines > 1 else name


def _seconds(time_s: float | None) -> str:
    """Return a time with three significant digits [s]."""
    return MISSING if time_s is None else f"{time_s:.3g} s"


def _times(factor: float | None) -> str:
    """Return a speed-up."""
    return MISSING if factor is None else f"{factor:.2f}"


@dataclass(frozen=True, kw_only=True)
class SizeRow:
    """A size of a study: medians over its runs; one that misses the target needs more than all others."""

    size: str = _size(
        lambda of: size_name(of.rates.processes, of.rates.num_envs, of.rates.machines),
        Shown("size", "processes × environments", lambda row: row.size, priority=0, align="left"),
    )
    """Processes × environments of each process."""
    fps_total: float | None = _size(
        lambda of: of.rates.fps_total,
        Shown("steps/s", "÷ s of training phases", lambda row: quantity(row.fps_total), priority=1),
    )
    """Environment steps of all processes per second of all training phases [1/s]."""
    speed_up: float | None = _size(
        lambda of: of.efficiency.speed_up,
        Shown("speed-up", "of this rate", lambda row: _times(row.speed_up), priority=2, if_measured=True),
    )
    """Total rate ÷ total rate of the smallest size."""
    of_rate: float | None = _size(
        lambda of: of.efficiency.of_rate,
        Shown("efficiency", "of this rate", lambda row: percent(row.of_rate), priority=3, if_measured=True),
    )
    """The same, per process."""
    runs: int | None = _size(lambda of: None if of.point is None else len(of.point.counted))
    """Runs, without those that were interrupted or repeated."""
    reached: int | None = _size(
        lambda of: None if of.point is None else of.point.reached,
        Shown("reached", "of the runs", lambda row: f"{row.reached} of {row.runs}", priority=4, if_measured=True),
    )
    """Runs that reached the target."""
    time_to_target_s: float | None = _size(
        lambda of: of.to_target(lambda run: run.time_to_target_s),
        Shown("to target", "median", lambda row: duration(row.time_to_target_s), priority=5, if_measured=True),
    )
    """Median of the wall-clock time until the target was confirmed [s]."""
    cost_to_target_usd: float | None = _size(
        lambda of: of.to_target(lambda run: run.cost_to_target_usd),
        Shown("cost", "median, to the target", lambda row: usd(row.cost_to_target_usd), priority=6, if_measured=True),
    )
    """Median of the cost until then [USD]."""
    batch: int | None = _size(
        lambda of: None if of.point is None else of.point.batch,
        Shown("batch", "samples per iteration", lambda row: f"{row.batch}", priority=7, if_measured=True),
    )
    """Samples per iteration, over all processes."""
    steps_to_target: float | None = _size(
        lambda of: of.to_target(lambda run: run.steps_to_target),
        Shown("steps to target", "median", lambda row: quantity(row.steps_to_target), priority=8, if_measured=True),
    )
    """Median of the environment steps of the learner until then."""
    of_samples: float | None = _size(
        lambda of: of.efficiency.of_samples,
        Shown("× samples", "efficiency", lambda row: percent(row.of_samples), priority=9, if_measured=True),
    )
    """Steps to the target of the smallest size ÷ steps to the target."""
    of_training: float | None = _size(
        lambda of: of.efficiency.of_training,
        Shown("= training", "efficiency", lambda row: percent(row.of_training), priority=10, if_measured=True),
    )
    """``of_rate`` × ``of_samples``."""
    of_time: float | None = _size(
        lambda of: of.efficiency.of_time,
        Shown("of the time", "efficiency", lambda row: percent(row.of_time), priority=11, if_measured=True),
    )
    """Time to the target of the smallest size ÷ time to the target, per process; with start-up and scoring."""
    fps_step: float | None = _size(
        lambda of: of.rates.fps_step,
        Shown("step", "steps/s of simulate + manage", lambda row: quantity(row.fps_step), priority=12),
    )
    """Environment steps of all processes per second of ``simulate + manage`` [1/s]."""
    fps_step_inference: float | None = _size(
        lambda of: of.rates.fps_step_inference,
        Shown("step + inference", "with infer", lambda row: quantity(row.fps_step_inference), priority=13),
    )
    """The same with ``infer`` [1/s]."""
    epoch_s: float | None = _size(
        lambda of: of.rates.epoch_s,
        Shown("iteration", "scoring included", lambda row: _seconds(row.epoch_s), priority=14),
    )
    """Wall-clock time of an iteration of collecting and learning, scoring included [s]."""
    gradient_noise: Figure | None = _size(lambda of: None if of.point is None else median_noise(of.point.runs))
    """Median of the gradient noise scale in the last third of the training [samples], from the smallest to the largest
    end of the runs' intervals."""


def median_noise(runs: Iterable[ScaledRun]) -> Figure | None:
    """Return the median of the gradient noise scales of runs, from the smallest to the largest end of their intervals.

    Args:
        runs: The runs. One whose gradient is hidden by noise counts as larger than all others.

    Returns:
        The median [samples], without an interval if a run has none; ``None`` if no run has a noise scale.
    """
    found = [run.gradient_noise for run in runs if run.gradient_noise is not None]
    if not found:
        return None
    value = statistics.median(each.value for each in found)
    intervals = [each.interval for each in found if each.interval is not None]
    if len(intervals) < len(found):  # those of the others could lie beside the median
        return Figure(value=value, interval=None)
    return Figure(value=value, interval=(min(low for low, _ in intervals), max(high for _, high in intervals)))


def _residual_cell(row: IdentityRow) -> TableCell:
    unexplained = abs(row.residual_s) > ROUNDING_S
    return TableCell(f"{row.residual_s:.3f} s" if unexplained else "0", style="bad" if unexplained else "")


ROUNDING_S = 1e-6
"""Largest residual that rounding explains [s]. The ledger counts whole nanoseconds."""


@dataclass(frozen=True, kw_only=True)
class IdentityRow:
    """Where the time of a run went: until the target, or until its end if it missed the target."""

    run_id: str = _run(
        lambda of: of.run_id, Shown("run", "", lambda row: f"{row.run_id} {row.size}", priority=0, align="left")
    )
    size: str = _run(lambda of: size_name(of.processes, of.num_envs, of.machines))
    """Processes × environments of each process."""
    reached: bool = _run(lambda of: of.reached)
    """Whether it reached the target."""
    time_s: float = _run(
        lambda of: of.identity.time_s,
        Shown(
            "to target",
            "> without target",
            lambda row: f"{'' if row.reached else '> '}{row.time_s:.2f} s",
            priority=1,
        ),
    )
    """Time until the target, or until the end [s]."""
    start_up_s: float = _run(
        lambda of: of.identity.start_up_s,
        Shown("= start-up", "and compilation", lambda row: f"{row.start_up_s:.2f} s", priority=2),
    )
    """Start-up and compilation [s]."""
    steps: int = _run(
        lambda of: of.identity.steps, Shown("+ steps", "of the learner", lambda row: f"{row.steps}", priority=3)
    )
    """Environment steps of the learner until then, over all processes."""
    rate: float | None = _run(
        lambda of: of.identity.rate,
        Shown(
            "÷ rate",
            "steps/s of training",
            lambda row: MISSING if row.rate is None else f"{row.rate:.0f}/s",
            priority=4,
        ),
    )
    """Their rate: ``steps`` ÷ seconds of the training phases until then [1/s]."""
    scoring_s: float = _run(
        lambda of: of.identity.scoring_s, Shown("+ scoring", "", lambda row: f"{row.scoring_s:.2f} s", priority=5)
    )
    """Scoring of policies until then [s]."""
    interruptions_s: float = _run(
        lambda of: of.identity.interruptions_s,
        Shown("+ interruptions", "and shutdown", lambda row: f"{row.interruptions_s:.2f} s", priority=6),
    )
    """Restarts, suspension and shutdown until then [s]."""
    split_s: float = _run(lambda of: of.identity.split_s)
    """How much of the time lies in the phase window that the confirmation divides [s]. It counts as scoring as far as
    this window has so much of it, and then as training."""
    residual_s: float = _run(lambda of: of.identity.residual_s, Shown("rest", "", _residual_cell, priority=7))
    """Time that is in none of these parts [s]; 0 but for rounding, unless rows are missing."""
