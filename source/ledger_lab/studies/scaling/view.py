"""Scaling studies as tables and sentences for the terminal, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from rich.console import Group
from rich.text import Text

from ledger_lab.ledger.comparability import differing, settings
from ledger_lab.reports.columns import Shown, TableCell, figure, summarize
from ledger_lab.reports.terminal_table import table_lines
from ledger_lab.studies.scaling.laws import BatchFit, Figure, RateFit, Refusal
from ledger_lab.studies.scaling.points import ScaledRun, ScalingPoint, ScalingStudy, Setting
from ledger_lab.units import MISSING, counted, duration, percent, quantity, target_share, usd

ROUNDING_S = 1e-6
"""Largest residual that rounding explains [s]. The ledger counts whole nanoseconds."""
_SHOWN_SHARE = 0.01
"""Smallest share of a phase that is named."""
_FEW_ITERATIONS = 10
"""With fewer iterations, the first ones, which warm up, dominate a rate."""
_TOLD = ("code_sha256", "git", "price")
"""Fields whose differences have lines of their own."""


def _size[Value](read: Callable[[ScalingPoint], Value], shown: Shown | None = None) -> Value:
    return figure(read, shown)


def _run[Value](read: Callable[[ScaledRun], Value], shown: Shown | None = None) -> Value:
    return figure(read, shown)


@dataclass(frozen=True, kw_only=True)
class SizeRow:
    """A size of a study: medians over its runs; one that misses the target needs more than all others."""

    size: str = _size(
        lambda of: of.name, Shown("size", "processes × environments", lambda row: row.size, priority=0, align="left")
    )
    """Processes × environments of each process."""
    fps_total: float | None = _size(
        lambda of: of.median(lambda run: run.summary.fps_total),
        Shown("steps/s", "÷ s of training phases", lambda row: quantity(row.fps_total), priority=1),
    )
    """Environment steps of all processes per second of all training phases [1/s]."""
    speed_up: float | None = _size(
        lambda of: of.speed_up,
        Shown("speed-up", "of this rate", lambda row: _with_digits(row.speed_up, ".2f"), priority=2, if_measured=True),
    )
    """Total rate ÷ total rate of the smallest size."""
    of_rate: float | None = _size(
        lambda of: of.of_rate,
        Shown("efficiency", "of this rate", lambda row: percent(row.of_rate), priority=3, if_measured=True),
    )
    """The same, per process."""
    runs: int = _size(lambda of: len(of.counted))
    """Runs, without those that were interrupted or repeated."""
    reached: int = _size(
        lambda of: of.reached, Shown("reached", "of the runs", lambda row: f"{row.reached} of {row.runs}", priority=4)
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
    batch: int = _size(
        lambda of: of.batch, Shown("batch", "samples per iteration", lambda row: f"{row.batch}", priority=7)
    )
    """Samples per iteration, over all processes."""
    steps_to_target: float | None = _size(
        lambda of: of.to_target(lambda run: run.steps_to_target),
        Shown("steps to target", "median", lambda row: quantity(row.steps_to_target), priority=8, if_measured=True),
    )
    """Median of the environment steps of the learner until then."""
    of_samples: float | None = _size(
        lambda of: of.of_samples,
        Shown("× samples", "efficiency", lambda row: percent(row.of_samples), priority=9, if_measured=True),
    )
    """Steps to the target of the smallest size ÷ steps to the target."""
    of_training: float | None = _size(
        lambda of: of.of_training,
        Shown("= training", "efficiency", lambda row: percent(row.of_training), priority=10, if_measured=True),
    )
    """``of_rate`` × ``of_samples``."""
    of_time: float | None = _size(
        lambda of: of.of_time,
        Shown("of the time", "efficiency", lambda row: percent(row.of_time), priority=11, if_measured=True),
    )
    """Time to the target of the smallest size ÷ time to the target, per process; with start-up and scoring."""
    fps_step: float | None = _size(
        lambda of: of.median(lambda run: run.summary.fps_step),
        Shown("step", "steps/s of simulate + manage", lambda row: quantity(row.fps_step), priority=12),
    )
    """Environment steps of all processes per second of ``simulate + manage`` [1/s]."""
    fps_step_inference: float | None = _size(
        lambda of: of.median(lambda run: run.summary.fps_step_inference),
        Shown("step + inference", "with infer", lambda row: quantity(row.fps_step_inference), priority=13),
    )
    """The same with ``infer`` [1/s]."""
    epoch_s: float | None = _size(
        lambda of: of.median(lambda run: run.epoch_s),
        Shown("iteration", "scoring included", lambda row: _with_digits(row.epoch_s, ".3g", " s"), priority=14),
    )
    """Wall-clock time of an iteration of collecting and learning, scoring included [s]."""


@dataclass(frozen=True, kw_only=True)
class IdentityRow:
    """Where the time of a run went: until the target, or until its end if it missed the target."""

    run_id: str = _run(
        lambda of: of.run_id, Shown("run", "", lambda row: f"{row.run_id} {row.size}", priority=0, align="left")
    )
    size: str = _run(lambda of: _size_of(of))
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
        Shown("÷ rate", "steps/s of training", lambda row: _with_digits(row.rate, ".0f", "/s"), priority=4),
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
    residual_s: float = _run(
        lambda of: of.identity.residual_s, Shown("rest", "", lambda row: _residual_cell(row), priority=7)
    )
    """Time that is in none of these parts [s]; 0 but for rounding, unless rows are missing."""


def _with_digits(value: float | None, digits: str, unit: str = "") -> str:
    return MISSING if value is None else f"{value:{digits}}{unit}"


def _residual_cell(row: IdentityRow) -> TableCell:
    unexplained = abs(row.residual_s) > ROUNDING_S
    return TableCell(f"{row.residual_s:.3f} s" if unexplained else "0", style="bad" if unexplained else "")


def _size_of(run: ScaledRun) -> str:
    own = run.summary
    return ScalingPoint(processes=own.world_size, machines=run.machines, num_envs=own.num_envs, runs=(run,)).name


def render_studies(studies: Sequence[ScalingStudy], width: int) -> Group:
    """Draw scaling studies: rates and phases by size; steps, time and cost to the target; fits; identity.

    Args:
        studies: The studies; those of one setting follow each other.
        width: Columns of the terminal.
    """
    blocks: list[Text] = []
    single: list[str] = []
    every = [*{study.setting: None for study in studies}]
    for setting, group in groupby(studies, key=lambda study: study.setting):
        own = list(group)
        runs = [*{run.run_id: run for study in own for run in study.runs}.values()]
        apart = _apart_line(setting, every)
        if len(own) == 1 and len(own[0].points) == 1:
            told = f"{setting_line(setting)}: {len(runs)} of size {own[0].points[0].name}"
            single.append(f"{told}; {apart}" if apart else told)
            continue
        blocks.append(Text(setting_line(setting), style="bold"))
        blocks += [Text(note, style="yellow") for note in (apart, *pooling_lines(runs, own)) if note is not None]
        for study in own:
            blocks += _study(study, width)
        blocks += map(Text, law_lines(own[0].batch_law))
        blocks += table_lines(IdentityRow, [summarize(IdentityRow, run) for run in runs], width)
        summed, *rests = identity_lines(runs)
        blocks += [Text(summed, style="dim"), *(Text(line, style="yellow") for line in rests), Text()]
    if single:
        blocks.append(Text("Runs that have only one size, so there is nothing to compare:"))
        blocks += [Text(f"  {line}", style="dim") for line in single]
    return Group(*blocks)


def _study(study: ScalingStudy, width: int) -> Iterator[Text]:
    """Yield what belongs to one study."""
    yield Text(study.words, style="italic")
    yield from table_lines(SizeRow, [summarize(SizeRow, point) for point in study.points], width)
    for point in study.points:
        if (few := few_iterations_line(point)) is not None:
            yield Text(few, style="yellow")
        yield Text(f"{point.name}: {_phase_line(point)}", style="dim")
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


def _apart_line(setting: Setting, others: Sequence[Setting]) -> str | None:
    """Return why the runs of a setting are shown apart from those of the most similar one with its task."""
    alike = [setting.differences(other) for other in others if other.task == setting.task and other != setting]
    if not alike:
        return None
    _, names = min((len(names), names) for names in alike)
    return f"apart from other runs of this task, which have another {' and another '.join(names)}"


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
        f"{point.name}: {few} of {counted(len(point.runs), 'run')} trained fewer than {_FEW_ITERATIONS} iterations: "
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
        lines = [f"{law.law.full_name}, from {sizes}: {' · '.join(found)}"]
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


def identity_lines(runs: Sequence[ScaledRun]) -> list[str]:
    """Return for how many runs the time is the sum of its parts, and for which runs it is not."""
    rests = [run for run in runs if abs(run.identity.residual_s) > ROUNDING_S]
    return [
        f"the parts sum to the time, but for rounding, in {len(runs) - len(rests)} of {counted(len(runs), 'run')}",
        *(
            f"{run.run_id} ({_size_of(run)}): {run.identity.residual_s:.3f} s until "
            f"{'the target' if run.reached else 'the end'} are in no phase, because rows of its time are missing in "
            "the ledger"
            for run in rests
        ),
    ]


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
        **asdict(summarize(SizeRow, point)),
        "runs": [
            {
                **run.summary.to_json(),
                "reached": run.reached,
                "interrupted": run.interrupted,
                "repeated": run.repeated,
                "batch": run.batch,
                "minibatch": run.minibatch,
                "cost_to_target_usd": run.cost_to_target_usd,
                "identity": asdict(summarize(IdentityRow, run)),
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
