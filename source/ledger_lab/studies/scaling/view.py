"""Scaling studies as tables and sentences for the terminal, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from rich.console import Group
from rich.text import Text

from ledger_lab.ledger.comparability import differing, settings
from ledger_lab.reports.columns import Shown, TableCell
from ledger_lab.reports.terminal_table import table_lines
from ledger_lab.studies.scaling.laws import BatchFit, Figure, RateFit, Refusal
from ledger_lab.studies.scaling.points import ScaledRun, ScalingPoint, ScalingStudy, Setting, size_name
from ledger_lab.units import MISSING, counted, duration, percent, quantity, target_share, usd

ROUNDING_S = 1e-6
"""Largest residual that rounding explains [s]. The ledger counts whole nanoseconds."""
_SHOWN_SHARE = 0.01
"""Smallest share of a phase that is named."""
_FEW_ITERATIONS = 10
"""With fewer iterations, the first ones, which warm up, dominate a rate."""
_TOLD = ("code_sha256", "git", "price")
"""Fields whose differences have lines of their own."""


SIZES: Mapping[str, Shown] = {
    "size": Shown("size", "processes × environments", lambda of: of.size, align="left"),
    "fps_total": Shown("steps/s", "÷ s of training phases", lambda of: quantity(of.fps_total)),
    "speed_up": Shown("speed-up", "of this rate", lambda of: _with_unit(of.speed_up, ".2f", ""), if_measured=True),
    "of_rate": Shown("efficiency", "of this rate", lambda of: percent(of.of_rate), if_measured=True),
    "reached": Shown("reached", "of the runs", lambda of: f"{of.reached} of {of.counted}"),
    "time_to_target_s": Shown("to target", "median", lambda of: duration(of.time_to_target_s), if_measured=True),
    "cost_to_target_usd": Shown("cost", "to the target", lambda of: usd(of.cost_to_target_usd), if_measured=True),
    "batch": Shown("batch", "samples per iteration", lambda of: f"{of.batch}"),
    "steps_to_target": Shown("steps to target", "median", lambda of: quantity(of.steps_to_target), if_measured=True),
    "of_samples": Shown("× samples", "efficiency", lambda of: percent(of.of_samples), if_measured=True),
    "of_training": Shown("= training", "efficiency", lambda of: percent(of.of_training), if_measured=True),
    "of_time": Shown("of the time", "efficiency", lambda of: percent(of.of_time), if_measured=True),
    "fps_step": Shown("step", "steps/s of simulate + manage", lambda of: quantity(of.fps_step)),
    "fps_step_inference": Shown("step + inference", "with infer", lambda of: quantity(of.fps_step_inference)),
    "epoch_s": Shown("iteration", "scoring included", lambda of: _with_unit(of.epoch_s, ".3g", " s")),
}
"""Columns of the sizes of a study, by the attributes of a point."""
RUNS: Mapping[str, Shown] = {
    "run_id": Shown("run", "", lambda run: f"{run.run_id} {_size_of(run)}", align="left"),
    "time": Shown(
        "to target", "> without target", lambda run: f"{'' if run.reached else '> '}{run.identity.time_s:.2f} s"
    ),
    "start_up": Shown("= start-up", "and compilation", lambda run: f"{run.identity.start_up_s:.2f} s"),
    "steps": Shown("+ steps", "of the learner", lambda run: f"{run.identity.steps}"),
    "rate": Shown("÷ rate", "steps/s of training", lambda run: _with_unit(run.identity.rate, ".0f", "/s")),
    "scoring": Shown("+ scoring", "", lambda run: f"{run.identity.scoring_s:.2f} s"),
    "interruptions": Shown("+ interruptions", "and shutdown", lambda run: f"{run.identity.interruptions_s:.2f} s"),
    "residual": Shown("rest", "", lambda run: _residual_cell(run.identity.residual_s)),
}
"""Columns of where the time of each run went: until the target, or until its end if it missed the target."""


def _with_unit(value: float | None, digits: str, unit: str) -> str:
    return MISSING if value is None else f"{value:{digits}}{unit}"


def _residual_cell(residual_s: float) -> TableCell:
    unexplained = abs(residual_s) > ROUNDING_S
    return TableCell(f"{residual_s:.3f} s" if unexplained else "0", style="bad" if unexplained else "")


def _size_of(run: ScaledRun) -> str:
    return size_name(run.summary.world_size, run.summary.num_envs, run.machines)


def render_studies(studies: Sequence[ScalingStudy], width: int) -> Group:
    """Draw scaling studies: rates and phases by size; steps, time and cost to the target; fits; identity.

    Args:
        studies: The studies; those of one setting follow each other.
        width: Columns of the terminal.
    """
    blocks: list[Text] = []
    single: list[str] = []
    for setting, group in groupby(studies, key=lambda study: study.setting):
        own = list(group)
        runs = [*{run.run_id: run for study in own for run in study.runs}.values()]
        if len(own) == 1 and len(own[0].points) == 1:
            single.append(f"{setting_line(setting)}: {len(runs)} of size {own[0].points[0].size}")
            continue
        blocks.append(Text(setting_line(setting), style="bold"))
        blocks += [Text(note, style="yellow") for note in pooling_lines(runs, own)]
        for study in own:
            blocks += _study(study, width)
        blocks += map(Text, law_lines(own[0].batch_law))
        blocks += [*table_lines(RUNS, runs, width), Text()]
    if single:
        blocks.append(Text("Runs that have only one size, so there is nothing to compare:"))
        blocks += [Text(f"  {line}", style="dim") for line in single]
    return Group(*blocks)


def _study(study: ScalingStudy, width: int) -> Iterator[Text]:
    """Yield what belongs to one study."""
    yield Text(study.words, style="italic")
    yield from table_lines(SIZES, study.points, width)
    for point in study.points:
        if (few := few_iterations_line(point)) is not None:
            yield Text(few, style="yellow")
        yield Text(f"{point.size}: {_phase_line(point)}", style="dim")
    yield from map(Text, law_lines(study.rate_law))


def setting_line(setting: Setting) -> str:
    """Return what the runs of a study have in common."""
    parts = [
        f"task {setting.task}",
        setting.library,
        setting.physics,
        f"{setting.instance} ({setting.hardware or setting.device})",
        f"panel {setting.panel} ({setting.panel_id[:11]}…)",
        f"target {target_share(setting.target)}",
    ]
    return " · ".join([*parts, setting.treatment] if setting.treatment else parts)


def pooling_lines(runs: Sequence[ScaledRun], studies: Sequence[ScalingStudy]) -> list[str]:
    """Return in what runs differ whose figures are pooled or compared: their code, their prices, and other fields.

    Args:
        runs: The runs.
        studies: Their studies; only runs of one size are pooled.
    """
    lines = []
    if (versions := len({run.declared.code for run in runs})) > 1:
        lines.append(f"trained by {versions} versions of the code, which may also differ in speed")
    if (prices := price_line(runs)) is not None:
        lines.append(prices)
    points = [[settings(run.declared) for run in point.runs] for study in studies for point in study.points]
    if names := dict.fromkeys(name for point in points for name in differing(point, without=_TOLD)):
        lines.append(f"pooled runs of one size differ in {', '.join(names)}")
    return lines


def price_line(runs: Sequence[ScaledRun]) -> str | None:
    """Return that runs have different prices, if they have."""
    prices = [run.summary.usd_per_hour for run in runs]
    known, unpriced = sorted({price for price in prices if price is not None}), prices.count(None)
    if not known or len(known) + bool(unpriced) < 2:
        return None
    told = [f"${price:g}/h" for price in known] + ([f"none for {counted(unpriced, 'run')}"] if unpriced else [])
    return (
        f"prices differ ({', '.join(told)}), so costs cannot be compared: set one price for all runs with --instance "
        "or --usd_per_hour"
    )


def few_iterations_line(point: ScalingPoint) -> str | None:
    """Return that runs of a size have trained too few iterations for a good rate, if they have."""
    few = sum(0 < run.summary.env_steps < _FEW_ITERATIONS * run.batch for run in point.runs)
    if not few:
        return None
    return (
        f"{point.size}: {few} of {counted(len(point.runs), 'run')} trained fewer than {_FEW_ITERATIONS} iterations: "
        "rates, speed-up and efficiency are rough, because the first iterations are slower"
    )


def cautions(study: ScalingStudy) -> list[str]:
    """Return what may mislead about the figures of a study: other code, prices or settings, and short runs."""
    short = [line for point in study.points if (line := few_iterations_line(point)) is not None]
    return [*pooling_lines(study.runs, [study]), *short]


def law_lines(law: RateFit | BatchFit | Refusal) -> list[str]:
    """Return what a law says, one line each: its coefficients, and whether it fits; or why there is none."""
    if isinstance(law, Refusal):
        return [f"not fitted: {law.reason}"]
    if isinstance(law, RateFit):
        found = [f"contention {figure_words(law.contention, percent)}"]
        if law.single_rate is not None:
            found.append(f"one process {figure_words(law.single_rate, quantity)} steps/s")
        found.append(f"largest deviation of a size {percent(law.largest_deviation)}")
        sizes = f"{len(law.sizes)} sizes, {law.sizes[0]} to {law.sizes[-1]} processes"
        lines = [f"{law.law}'s law, from {sizes}: {' · '.join(found)}"]
        if law.misfit_p_value is None:
            lines.append("  no interval: no two runs have the same size, so the spread between runs is unknown")
        return lines if law.fits else [*lines, f"  it does not fit the runs (p = {law.misfit_p_value:.2g})"]
    lines = [
        f"steps to the target = E_min (1 + batch ÷ critical batch), from {counted(law.runs, 'run')} with batches of "
        f"{law.batches[0]} to {law.batches[-1]} samples, {law.censored} of them short of the target: "
        f"E_min {figure_words(law.fewest_samples, _samples)} · "
        f"critical batch {figure_words(law.critical_batch, _samples)}"
    ]
    if law.fewest_samples.interval is None:
        lines.append("  no interval: no two runs with the same batch reached the target")
    return lines


def _phase_line(point: ScalingPoint) -> str:
    """Return the shares of the phases in the time of all runs of a size, the largest first."""
    wall_s = math.fsum(run.summary.wall_s for run in point.runs)
    spent_s: dict[str, float] = {}
    for run in point.runs:
        for phase, seconds in run.summary.phases.items():
            spent_s[phase] = spent_s.get(phase, 0.0) + seconds
    shares = sorted(((seconds / wall_s, phase) for phase, seconds in spent_s.items()), reverse=True) if wall_s else []
    return " · ".join(f"{phase} {percent(share, 0)}" for share, phase in shares if share >= _SHOWN_SHARE)


def figure_words(found: Figure, show: Callable[[float], str]) -> str:
    """Return a figure with its 95 % interval, if it has one."""

    def known(value: float) -> str:
        return show(value) if math.isfinite(value) else "∞"

    if found.interval is None:
        return known(found.value)
    low, high = found.interval
    return f"{known(found.value)} [{known(low)}, {known(high)}]"


def _samples(number: float) -> str:
    """Return a number of samples. A fit at its bound leaves a tiny part of one."""
    return "< 1" if number < 1 else quantity(number)


def studies_json(studies: Sequence[ScalingStudy]) -> list[dict[str, Any]]:
    """Return scaling studies as plain JSON values. An infinite figure is ``"infinite"``.

    Args:
        studies: The studies.
    """
    return [
        {
            "setting": asdict(study.setting),
            "kind": str(study.kind),
            "sizes": [_size_json(point) for point in study.points],
            "rate_law": _law_json(study.rate_law),
            "batch_law": _law_json(study.batch_law),
            "cautions": cautions(study),
        }
        for study in studies
    ]


def _size_json(point: ScalingPoint) -> dict[str, Any]:
    """Return a size of a study with its runs as plain JSON values."""
    return {
        "processes": point.processes,
        "machines": point.machines,
        "num_envs": point.num_envs,
        **{name: getattr(point, name) for name in SIZES},
        "runs": [
            {
                **run.summary.to_json(),
                "reached": run.reached,
                "interrupted": run.interrupted,
                "repeated": run.repeated,
                "batch": run.batch,
                "cost_to_target_usd": run.cost_to_target_usd,
                "identity": {**asdict(run.identity), "rate": run.identity.rate, "residual_s": run.identity.residual_s},
            }
            for run in point.runs
        ],
    }


def _law_json(law: RateFit | BatchFit | Refusal) -> dict[str, Any]:
    """Return a law as plain JSON values, with its figures at what was measured; or why there is none."""
    if isinstance(law, Refusal):
        return asdict(law)
    if isinstance(law, BatchFit):
        return {
            "batches": list(law.batches),
            "runs": law.runs,
            "censored": law.censored,
            "fewest_samples": _figure_json(law.fewest_samples),
            "critical_batch": _figure_json(law.critical_batch),
            "fitted": {batch: _figure_json(law.at(batch)) for batch in law.batches},
        }
    return {
        "law": str(law.law),
        "sizes": list(law.sizes),
        "fits": law.fits,
        "misfit_p_value": law.misfit_p_value,
        "contention": _figure_json(law.contention),
        "single_rate": _figure_json(law.single_rate),
        "fitted": {size: _figure_json(law.at(size)) for size in (law.sizes if law.fits else ())},
    }


def _figure_json(found: Figure | None) -> dict[str, Any] | None:
    """Return a figure with its interval as plain JSON values."""
    if found is None:
        return None

    def plain(value: float) -> float | str:
        return value if math.isfinite(value) else "infinite"

    interval = None if found.interval is None else [plain(end) for end in found.interval]
    return {"value": plain(found.value), "interval": interval}
