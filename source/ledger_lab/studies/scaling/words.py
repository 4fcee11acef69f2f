"""Scaling studies in sentences: their settings, fits, waits and phases."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields

from ledger_lab.ledger.comparability import differing
from ledger_lab.studies.scaling.batch import BatchFit
from ledger_lab.studies.scaling.laws import Figure, RateFit
from ledger_lab.studies.scaling.points import ScaledRun, ScalingPoint, ScalingStudy, Setting
from ledger_lab.studies.scaling.rates import Refusal
from ledger_lab.studies.scaling.table import ROUNDING_S, median_noise, size_name
from ledger_lab.units import counted, percent, quantity, target_share

_NAMES = {
    "rl_library": "library",
    "physics": "physics",
    "treatment": "setting",
    "panel": "panel",
    "panel_id": "panel id",
    "target_success": "target",
    "device": "device",
    "hardware": "hardware",
    "instance": "instance",
    "measured_by": "version of the verdict's rule, --stop_at_target or --timing",
}
"""Fields of :class:`Setting`, in words."""

_SHOWN_SHARE = 0.01
"""Smallest share of a phase that is named."""
_FEW_ITERATIONS = 10
"""With fewer iterations, the first ones, which warm up, dominate a rate."""


def setting_line(setting: Setting) -> str:
    """Return what the runs of a study have in common.

    Args:
        setting: The setting.
    """
    parts = [
        f"task {setting.task}",
        setting.rl_library,
        setting.physics,
        f"{setting.instance} ({setting.hardware or setting.device})",
        f"panel {setting.panel} ({setting.panel_id[:11]}…)",
        f"target {target_share(setting.target_success)}",
    ]
    return " · ".join([*parts, setting.treatment] if setting.treatment else parts)


_TOLD = ("code_sha256", "git", "price")
"""Fields whose differences have lines of their own."""


def apart_line(setting: Setting, others: Sequence[Setting]) -> str | None:
    """Return why the runs of a setting are shown apart from those of the most similar one.

    Args:
        setting: The setting.
        others: All settings.

    Returns:
        One line; ``None`` if no other setting has its task.
    """
    alike = [_differences(setting, other) for other in others if other.task == setting.task and other != setting]
    if not alike:
        return None
    names = [_NAMES[name] for name in min(alike, key=len)]
    return f"apart from other runs of this task, which have another {' and another '.join(names)}"


def code_line(runs: Sequence[ScaledRun]) -> str | None:
    """Return that runs were trained by different code, if they were.

    Args:
        runs: The runs.
    """
    versions = len({run.code for run in runs})
    return f"trained by {versions} versions of the code, which may also differ in speed" if versions > 1 else None


def differing_line(studies: Sequence[ScalingStudy]) -> str | None:
    """Return in what else runs of one size differ, whose figures are pooled; ``None`` if there is nothing.

    Args:
        studies: Studies of one setting.
    """
    points = [[run.settings for run in point.runs] for study in studies for point in study.points]
    names = dict.fromkeys(name for point in points for name in differing(point, without=_TOLD))
    return f"pooled runs of one size differ in {', '.join(names)}" if names else None


def price_line(runs: Sequence[ScaledRun]) -> str | None:
    """Return that runs have different prices, if they have.

    Args:
        runs: The runs.
    """
    known = sorted({run.usd_per_hour for run in runs if run.usd_per_hour is not None})
    unpriced = sum(run.usd_per_hour is None for run in runs)
    if not known or len(known) + bool(unpriced) < 2:
        return None
    prices = [f"${price:g}/h" for price in known] + ([f"none for {counted(unpriced, 'run')}"] if unpriced else [])
    return (
        f"prices differ ({', '.join(prices)}), so costs cannot be compared: set one price for all runs with "
        "--instance or --usd_per_hour"
    )


def few_iterations_line(point: ScalingPoint) -> str | None:
    """Return that runs of a size have trained too few iterations for a good rate, if they have.

    Args:
        point: The size.
    """
    few = sum(0 < run.env_steps < _FEW_ITERATIONS * run.batch for run in point.runs)
    if not few:
        return None
    return (
        f"{few} of {counted(len(point.runs), 'run')} trained fewer than {_FEW_ITERATIONS} iterations: rates, speed-up "
        "and efficiency are rough, because the first iterations are slower"
    )


def cautions(study: ScalingStudy) -> list[str]:
    """Return what may mislead about the figures of a study: other code, prices or settings, and short runs.

    Args:
        study: The study.
    """
    short = [(_size(point), few_iterations_line(point)) for point in study.points]
    told = [code_line(study.runs), price_line(study.runs), differing_line([study])]
    told += [None if line is None else f"{size}: {line}" for size, line in short]
    return [line for line in told if line is not None]


def law_lines(law: RateFit | BatchFit | Refusal) -> list[str]:
    """Return what a law says, one line each: its coefficients, and whether it fits; or why there is none.

    Args:
        law: The law.
    """
    if isinstance(law, Refusal):
        return [f"not fitted: {law.reason}"]
    if isinstance(law, RateFit):
        lines = [_rate_line(law)]
        if law.misfit_p_value is None:
            lines.append("  no interval: no two runs have the same size, so the spread between runs is unknown")
        return lines if law.fits else [*lines, f"  it does not fit the runs (p = {law.misfit_p_value:.2g})"]
    lines = [
        f"steps to the target = E_min (1 + batch ÷ critical batch), from {counted(law.runs, 'run')} with batches of "
        f"{law.batches[0]} to {law.batches[-1]} samples, {law.censored} of them short of the target: "
        f"E_min {_figure(law.fewest_samples, _samples)} · critical batch {_figure(law.critical_batch, _samples)}"
    ]
    if law.fewest_samples.interval is None:
        lines.append("  no interval: no two runs with the same batch reached the target")
    return lines


def _rate_line(law: RateFit) -> str:
    """Return the coefficients of a law of the rate."""
    found = [f"contention {_figure(law.contention, percent)}"]
    if law.single_rate is not None:
        found.append(f"one process {_figure(law.single_rate, quantity)} steps/s")
    found.append(f"largest deviation of a size {percent(law.largest_deviation)}")
    sizes = f"{len(law.sizes)} sizes, {law.sizes[0]} to {law.sizes[-1]} processes"
    return f"{law.law.full_name}, from {sizes}: {' · '.join(found)}"


def noise_line(runs: Sequence[ScaledRun]) -> str | None:
    """Return the gradient noise scales of runs, to be compared with the critical batch; ``None`` without any.

    Args:
        runs: Runs of one setting.
    """
    told: list[str] = []
    for minibatch in sorted({run.minibatch for run in runs if run.minibatch is not None}):
        noise = median_noise(run for run in runs if run.minibatch == minibatch)
        if noise is not None:
            told.append(f"{_figure(noise, _samples)} samples (a gradient step averages {quantity(minibatch)})")
    return f"gradient noise scale in the last third, median of the runs: {', '.join(told)}" if told else None


def phase_line(point: ScalingPoint) -> str:
    """Return the shares of the phases in the time of all runs of a size, the largest first.

    Args:
        point: The size.
    """
    wall_s = math.fsum(run.wall_s for run in point.runs)
    spent_s: dict[str, float] = {}
    for run in point.runs:
        for phase, seconds in run.phases.items():
            spent_s[phase] = spent_s.get(phase, 0.0) + seconds
    shares = sorted(((seconds / wall_s, phase) for phase, seconds in spent_s.items()), reverse=True) if wall_s else []
    return " · ".join(f"{phase} {percent(share, 0)}" for share, phase in shares if share >= _SHOWN_SHARE)


def identity_lines(runs: Sequence[ScaledRun]) -> list[str]:
    """Return for how many runs the time is the sum of its parts, and for which runs it is not.

    Args:
        runs: The runs.
    """
    exact = sum(abs(run.identity.residual_s) <= ROUNDING_S for run in runs)
    return [
        f"the parts sum to the time, but for rounding, in {exact} of {counted(len(runs), 'run')}",
        *_residual_lines(runs),
    ]


def _residual_lines(runs: Sequence[ScaledRun]) -> list[str]:
    """Return the runs whose time is not the sum of its parts, with what that means."""
    return [
        f"{run.run_id} ({_size(run)}): {run.identity.residual_s:.3f} s until "
        f"{'the target' if run.reached else 'the end'} are in no phase, because rows of its time are missing in the "
        "ledger"
        for run in runs
        if abs(run.identity.residual_s) > ROUNDING_S
    ]


def _size(sized: ScaledRun | ScalingPoint) -> str:
    """Return the size of a run, or of all runs of a size, in words."""
    return size_name(sized.processes, sized.num_envs, sized.machines)


def _differences(setting: Setting, other: Setting) -> list[str]:
    """Return the fields in which two settings differ."""
    names = [each.name for each in fields(Setting) if getattr(setting, each.name) != getattr(other, each.name)]
    told = {"panel_id", "target_success"} & set(names)  # these are in measured_by, too
    return [name for name in names if not (told and name == "measured_by")]


def _figure(figure: Figure, show: Callable[[float], str]) -> str:
    """Return a figure with its 95 % interval."""

    def known(value: float) -> str:
        return show(value) if math.isfinite(value) else "∞"

    if figure.interval is None:
        return known(figure.value)
    low, high = figure.interval
    return f"{known(figure.value)} [{known(low)}, {known(high)}]"


def _samples(number: float) -> str:
    """Return a number of samples. A fit at its bound leaves a tiny part of one."""
    return "< 1" if number < 1 else quantity(number)
