"""Rows of the tables of scaling studies: one per size, and one per run."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from ledger_lab.reports.columns import Shown, TableCell, figure
from ledger_lab.studies.scaling.laws import Figure
from ledger_lab.studies.scaling.points import ScaledRun, ScalingPoint
from ledger_lab.studies.scaling.rates import Growth, SizeRates, growth
from ledger_lab.studies.scaling.studies import Efficiency, efficiency
from ledger_lab.units import MISSING, duration, gigabytes, percent, quantity, usd


class SizeFacts:
    """A size of a study, and the smallest size, to which speed-up and efficiency refer."""

    def __init__(self, rates: SizeRates, base: SizeRates | None) -> None:
        """Keep both.

        Args:
            rates: Rates of the size.
            base: Rates of the smallest size; ``None`` if the sizes are in no strong or weak scaling.
        """
        self.rates, self.base = rates, base

    @cached_property
    def growth(self) -> Growth | None:
        """Growth of the total rate."""
        if self.base is None:
            return None
        return growth(self.rates.processes, self.rates.fps_total, self.base.processes, self.base.fps_total)


class PointFacts:
    """A size of a study of the ledger, and its smallest size."""

    def __init__(self, point: ScalingPoint, base: ScalingPoint | None) -> None:
        """Keep both; as for :class:`SizeFacts`."""
        self.point, self.base = point, base

    @cached_property
    def efficiency(self) -> Efficiency:
        """Its efficiency."""
        return Efficiency() if self.base is None else efficiency(self.point, self.base)


def _rate[Value](read: Callable[[SizeFacts], Value], shown: Shown | None = None) -> Value:
    return figure(read, shown)


def _point[Value](read: Callable[[PointFacts], Value], shown: Shown | None = None) -> Value:
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
class RateRow:
    """The rates of a size: medians over its runs."""

    size: str = _rate(
        lambda of: size_name(of.rates.processes, of.rates.num_envs, of.rates.machines),
        Shown("size", "processes × environments", lambda row: row.size, priority=0, align="left"),
    )
    """Processes × environments of each process."""
    fps_step: float | None = _rate(
        lambda of: of.rates.fps_step,
        Shown("step", "steps/s of simulate + manage", lambda row: quantity(row.fps_step), priority=1),
    )
    """Environment steps of all processes per second of ``simulate + manage`` [1/s]."""
    fps_step_inference: float | None = _rate(
        lambda of: of.rates.fps_step_inference,
        Shown("step + inference", "with infer", lambda row: quantity(row.fps_step_inference), priority=2),
    )
    """The same with ``infer`` [1/s]."""
    fps_total: float | None = _rate(
        lambda of: of.rates.fps_total,
        Shown("total", "÷ s of training phases", lambda row: quantity(row.fps_total), priority=3),
    )
    """The same steps per second of all training phases [1/s]."""
    epoch_s: float | None = _rate(
        lambda of: of.rates.epoch_s,
        Shown("epoch", "an iteration, scoring included", lambda row: _seconds(row.epoch_s), priority=4),
    )
    """Wall-clock time of an iteration of collecting and learning, scoring included [s]."""
    speed_up: float | None = _rate(
        lambda of: None if of.growth is None else of.growth.speed_up,
        Shown("speed-up", "of the total rate", lambda row: _times(row.speed_up), priority=5, if_measured=True),
    )
    """Total rate ÷ total rate of the smallest size."""
    efficiency: float | None = _rate(
        lambda of: None if of.growth is None else of.growth.efficiency,
        Shown("efficiency", "of the total rate", lambda row: percent(row.efficiency), priority=6, if_measured=True),
    )
    """The same, per process."""


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


def _reached_cell(row: TargetRow) -> str:
    return f"{row.reached} of {row.runs}"


@dataclass(frozen=True, kw_only=True)
class TargetRow:
    """What a size needs to the target: medians over all its runs; one that misses the target needs more than others."""

    size: str = _point(
        lambda of: size_name(of.point.processes, of.point.num_envs, of.point.machines),
        Shown("size", "processes × environments", lambda row: row.size, priority=0, align="left"),
    )
    """Processes × environments of each process."""
    runs: int = _point(lambda of: len(of.point.counted))
    reached: int = _point(lambda of: of.point.reached, Shown("reached", "of the runs", _reached_cell, priority=1))
    """Runs that reached the target."""
    batch: int = _point(
        lambda of: of.point.batch, Shown("batch", "samples per iteration", lambda row: f"{row.batch}", priority=2)
    )
    """Samples per iteration, over all processes."""
    gradient_noise: Figure | None = _point(lambda of: median_noise(of.point.runs))
    """Median of the gradient noise scale in the last third of the training [samples], from the smallest to the largest
    end of the runs' intervals."""
    steps_to_target: float | None = _point(
        lambda of: of.point.median_to_target(lambda run: run.steps_to_target),
        Shown("steps to target", "median", lambda row: quantity(row.steps_to_target), priority=3),
    )
    """Median of the environment steps of the learner until the target was confirmed."""
    time_to_target_s: float | None = _point(
        lambda of: of.point.median_to_target(lambda run: run.time_to_target_s),
        Shown("to target", "median", lambda row: duration(row.time_to_target_s), priority=4),
    )
    """Median of the wall-clock time until then [s]."""
    cost_to_target_usd: float | None = _point(
        lambda of: of.point.median_to_target(lambda run: run.cost_to_target_usd),
        Shown("cost", "median, to the target", lambda row: usd(row.cost_to_target_usd), priority=5),
    )
    """Median of the cost until then [USD]."""


@dataclass(frozen=True, kw_only=True)
class EfficiencyRow:
    """Efficiency of a size, relative to the smallest size."""

    size: str = _point(
        lambda of: size_name(of.point.processes, of.point.num_envs, of.point.machines),
        Shown("size", "processes × environments", lambda row: row.size, priority=0, align="left"),
    )
    """Processes × environments of each process."""
    of_rate: float | None = _point(
        lambda of: of.efficiency.of_rate,
        Shown("efficiency of the rate", "", lambda row: percent(row.of_rate), priority=1),
    )
    """Total rate per process ÷ that of the smallest size."""
    of_samples: float | None = _point(
        lambda of: of.efficiency.of_samples,
        Shown("× samples", "", lambda row: percent(row.of_samples), priority=2),
    )
    """Steps to the target of the smallest size ÷ steps to the target."""
    of_training: float | None = _point(
        lambda of: of.efficiency.of_training,
        Shown("= training", "", lambda row: percent(row.of_training), priority=3),
    )
    """``of_rate`` × ``of_samples``."""
    of_time: float | None = _point(
        lambda of: of.efficiency.of_time,
        Shown("of the whole time", "", lambda row: percent(row.of_time), priority=4),
    )
    """Time to the target of the smallest size ÷ time to the target, per process; with start-up and scoring."""


type _Devices = tuple[float | None, ...]


def _each(values: _Devices | None, show: Callable[[float], str]) -> str:
    """Return the figures of each accelerator; one figure if there is only one."""
    return " ".join(MISSING if value is None else show(value) for value in values or ()) or MISSING


def _by_device(runs: Iterable[ScaledRun], read: Callable[[ScaledRun], _Devices]) -> _Devices | None:
    """Return the median of each accelerator's figure over runs that metered the most; ``None`` without any figure."""
    metered = [values for run in runs if (values := read(run)) != (None,) * len(values)]
    most = max((len(values) for values in metered), default=0)
    columns = zip(*(values for values in metered if len(values) == most), strict=True)
    known = [[value for value in column if value is not None] for column in columns]
    return tuple(statistics.median(values) if values else None for values in known) or None


def _per_gpu(
    name: str, title: str, about: str, show: Callable[[float], str], *, priority: int
) -> tuple[float | None, ...] | None:
    """Return a column with a figure of each accelerator, which a run and the row have under the same name."""
    return _point(
        lambda of: _by_device(of.point.runs, attrgetter(name)),
        Shown(title, about, lambda row: _each(getattr(row, name), show), priority=priority, if_measured=True),
    )


@dataclass(frozen=True, kw_only=True)
class LoadRow:
    """Memory, power and use of a size: medians over its runs."""

    size: str = _point(
        lambda of: size_name(of.point.processes, of.point.num_envs, of.point.machines),
        Shown("size", "processes × environments", lambda row: row.size, priority=0, align="left"),
    )
    """Processes × environments of each process."""
    peak_gpu_memory_gb: float | None = _point(
        lambda of: of.point.median(lambda run: run.peak_gpu_memory_gb),
        Shown(
            "GPU memory",
            "peak of a process",
            lambda row: gigabytes(row.peak_gpu_memory_gb),
            priority=1,
            if_measured=True,
        ),
    )
    """Peak memory on the accelerator of the process with the largest peak [GB]."""
    peak_host_memory_gb: float | None = _point(
        lambda of: of.point.median(lambda run: run.peak_host_memory_gb),
        Shown(
            "host memory",
            "peak of a process",
            lambda row: gigabytes(row.peak_host_memory_gb),
            priority=2,
            if_measured=True,
        ),
    )
    """Peak memory on the host of the process with the largest peak [GB]."""
    peak_device_memory_gb: _Devices | None = _per_gpu(
        "peak_device_memory_gb", "in use per GPU [GB]", "peak, all programs", lambda value: f"{value:.1f}", priority=3
    )
    """Peak memory in use on each accelerator, by all programs [GB]."""
    mean_power_w: _Devices | None = _per_gpu(
        "mean_power_w", "power per GPU [W]", "mean", lambda value: f"{value:.0f}", priority=4
    )
    """Mean power of each accelerator [W]."""
    mean_utilization: _Devices | None = _per_gpu(
        "mean_utilization", "busy per GPU", "mean", lambda value: percent(value, 0), priority=5
    )
    """Share of the time in which a kernel ran, of each accelerator, in [0, 1]."""


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
