"""The figures of the scaling studies of a ledger, and of published rates."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ledger_lab.reports.figures.drawing import Drawing
from ledger_lab.reports.figures.look import shown
from ledger_lab.studies.figures.money import PricedRun, PricedSize, draw_money
from ledger_lab.studies.figures.phase_shares import draw_phases
from ledger_lab.studies.figures.rates import RatedRun, draw_rates
from ledger_lab.studies.figures.targets import draw_steps, draw_times
from ledger_lab.studies.reports.scaling_words import cautions, noise_line, price_line, refusal_line, setting_line
from ledger_lab.studies.scaling.points import ScaledRun, ScalingPoint, ScalingStudy, Setting
from ledger_lab.studies.scaling.published import PublishedStudy
from ledger_lab.studies.scaling.rates import Kind, SizeRates
from ledger_lab.units import target_share

_LONGEST_NAME = 32
"""Characters of a task or a library in the name of a file."""


@dataclass(frozen=True, kw_only=True)
class DrawingGroup:
    """Figures that belong together."""

    title: str
    drawings: tuple[Drawing, ...]
    notes: tuple[str, ...] = ()
    """Sentences about what is drawn, and why something is not."""


def draw_studies(studies: Sequence[ScalingStudy]) -> list[DrawingGroup]:
    """Draw everything about the runs of a ledger that differ in their size.

    Args:
        studies: The studies of the ledger, as :func:`ledger_lab.studies.scaling.studies.find_studies` returns them.

    Returns:
        The figures of each target: first the cost against the time, then those of each setting. Targets and settings
        without several sizes are left out. Each figure has another name.
    """
    by_target: dict[tuple[object, ...], dict[Setting, list[ScalingStudy]]] = {}
    for study in studies:
        setting = study.setting
        target = (setting.task, setting.physics, setting.panel_id, setting.target_success, setting.measured_by)
        by_target.setdefault(target, {}).setdefault(setting, []).append(study)
    groups = []
    for settings in by_target.values():
        scaled = {setting: own for setting, own in settings.items() if len(_points(own)) > 1}
        if scaled:
            groups += _target_group(settings)
            groups += [group for setting, own in scaled.items() for group in _setting_groups(setting, own)]
    return _with_own_names(groups)


def draw_published(study: PublishedStudy) -> Drawing:
    """Draw published rates.

    Args:
        study: The rates of one task.
    """
    fits, _ = study.fit()
    runs = [RatedRun(run_id=f"published-{rates.processes}", rates=rates) for rates in study.points]
    title = f"{shown(study.task)} · {shown(study.hardware)} · {study.kind} scaling, as published"
    return draw_rates(f"published-{_slug(study.task)}-{study.kind}", title, runs, fits)


def _target_group(settings: dict[Setting, list[ScalingStudy]]) -> list[DrawingGroup]:
    """Return the figure of all settings with the same target, if two sizes have a price."""
    points = [(setting, point) for setting, own in settings.items() for point in _points(own)]
    sizes = [size for setting, point in points if (size := _priced(setting, point)) is not None]
    if len(sizes) < 2:
        return []
    first = next(iter(settings))
    target = f"{shown(first.task)} · target {target_share(first.target_success)} · panel {shown(first.panel)}"
    drawing = draw_money(f"{_slug(first.task)}-cost-against-time", f"{target}: cost against time", sizes)
    unpriced = sum(len(point.runs) for _, point in points) - sum(len(size.runs) for size in sizes)
    notes = [f"not drawn: {unpriced} of the runs, because they have no price"] if unpriced else []
    for setting, own in settings.items():
        if (line := price_line([run for point in _points(own) for run in point.runs])) is not None:
            notes.append(f"{setting_line(setting)}: {line}")
    return [DrawingGroup(title=target, drawings=(drawing,), notes=tuple(notes))]


def _setting_groups(setting: Setting, studies: Sequence[ScalingStudy]) -> list[DrawingGroup]:
    """Return the figures of one setting: those of each study, and the steps to the target of all its runs."""
    name = f"{_slug(setting.task)}-{_slug(setting.rl_library)}"
    words = " · ".join(shown(each) for each in (setting.task, setting.rl_library, setting.hardware or setting.instance))
    if setting.treatment:
        words = f"{words} · {shown(setting.treatment)}"
    groups = [
        _study_group(study, f"{name}-{study.kind}", f"{words} · {_kind_words(study)}")
        for study in studies
        if study.kind is not Kind.OTHER
    ]
    every = [run for point in _points(studies) for run in point.runs]
    runs = [run for run in every if run.identity.steps]
    if len({run.batch for run in runs}) > 1:
        drawing = draw_steps(f"{name}-steps-against-batch", f"{words}: steps to the target", runs, studies[0].batch_fit)
        notes = [] if (missing := studies[0].batch_refusal) is None else [refusal_line(missing)]
        if untrained := len(every) - len(runs):
            notes.append(f"not drawn: {untrained} of the runs, because they ended before their first iteration")
        notes += [] if (noise := noise_line(runs)) is None else [noise]
        groups.append(
            DrawingGroup(title=f"{words} · all batches", drawings=(drawing,), notes=(setting_line(setting), *notes))
        )
    return groups


def _study_group(study: ScalingStudy, name: str, title: str) -> DrawingGroup:
    """Return the figures of one study."""
    drawings = []
    rated = [RatedRun(run_id=run.run_id, rates=_rates(run)) for run in study.runs]
    if any(run.rates.fps_total for run in rated):
        drawings.append(draw_rates(f"{name}-rate", f"{title}: rate", rated, study.rate_fits))
    if any(run.identity.time_s > 0 for run in study.runs):
        drawings.append(draw_times(f"{name}-time", f"{title}: time to the target", study.points))
    if any(sum(run.phases.values()) > 0 for run in study.runs):
        drawings.append(draw_phases(f"{name}-phases", f"{title}: phases", study.points))
    notes = [*cautions(study), *map(refusal_line, study.refusals)]
    notes += [
        f"not drawn: {fit.full_name} does not fit the runs (p = {fit.misfit_p_value:.2g})"
        for fit in study.rate_fits
        if not fit.fits
    ]
    notes += [] if (noise := noise_line(study.runs)) is None else [noise]
    return DrawingGroup(title=title, drawings=tuple(drawings), notes=(setting_line(study.setting), *notes))


def _rates(run: ScaledRun) -> SizeRates:
    """Return the rates of a run."""
    return SizeRates(
        processes=run.processes,
        num_envs=run.num_envs,
        machines=run.machines,
        fps_step=run.fps_step,
        fps_step_inference=run.fps_step_inference,
        fps_total=run.fps_total,
        epoch_s=run.epoch_s,
    )


def _priced(setting: Setting, point: ScalingPoint) -> PricedSize | None:
    """Return what a size cost; ``None`` if no run has a price."""
    runs = []
    for run in point.runs:
        cost = run.cost_to_target_usd if run.reached else run.billable_usd
        if cost and run.identity.time_s > 0:
            runs.append(PricedRun(run_id=run.run_id, time_s=run.identity.time_s, usd=cost, reached=run.reached))
    if not runs:
        return None
    drawn = {run.run_id for run in runs}
    priced = replace(point, runs=tuple(run for run in point.runs if run.run_id in drawn))
    words = (setting.rl_library, setting.instance, setting.treatment)
    return PricedSize(
        series=" · ".join(shown(each) for each in words if each),
        label=f"{point.processes} × {point.num_envs:,}"
        + (f" on {point.machines} machines" if (point.machines or 1) > 1 else ""),
        runs=tuple(runs),
        median_time_s=priced.median_to_target(lambda run: run.time_to_target_s),
        median_usd=priced.median_to_target(lambda run: run.cost_to_target_usd),
    )


def _points(studies: Iterable[ScalingStudy]) -> list[ScalingPoint]:
    """Return the sizes of studies of one setting, each once: a size can be in a strong and in a weak study."""
    found = {
        (point.processes, point.num_envs, point.machines or 0): point for study in studies for point in study.points
    }
    return [found[key] for key in sorted(found)]


def _kind_words(study: ScalingStudy) -> str:
    """Return what stays constant in a study."""
    point = study.points[0]
    if study.kind is Kind.STRONG:
        return f"strong scaling, {point.num_envs * point.processes:,} environments in all"
    return f"weak scaling, {point.num_envs:,} environments per process"


def _slug(text: str) -> str:
    """Return a text as a part of the name of a file."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text)[:_LONGEST_NAME].strip("-").lower() or "unnamed"


def _with_own_names(groups: Sequence[DrawingGroup]) -> list[DrawingGroup]:
    """Number the names that occur several times, so that no file replaces another."""
    seen = Counter[str]()
    numbered = []
    for group in groups:
        drawings = []
        for drawing in group.drawings:
            seen[drawing.name] += 1
            count = seen[drawing.name]
            drawings.append(drawing if count == 1 else replace(drawing, name=f"{drawing.name}-{count}"))
        numbered.append(replace(group, drawings=tuple(drawings)))
    return numbered
