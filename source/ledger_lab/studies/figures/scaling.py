"""The figures of the scaling studies of a ledger, and of published rates.

Each mark is a run. A hollow mark with an arrow is a run that missed the target: its figure is larger than shown.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ledger_lab.ledger import Run
from ledger_lab.ledger.costs import Price, pareto_front
from ledger_lab.ledger.meters import Phase
from ledger_lab.reports.figures.drawing import INK, PAPER, SOFT, Drawing
from ledger_lab.reports.figures.look import (
    between,
    head,
    hue,
    is_crowded,
    joined,
    key_of_marks,
    logarithmic,
    mark,
    run_mark,
    shown,
    side_by_side,
    size_axis,
    time_unit,
)
from ledger_lab.reports.summary import RunSummary
from ledger_lab.studies.scaling import find_studies
from ledger_lab.studies.scaling.batch import BatchFit
from ledger_lab.studies.scaling.laws import Figure, RateFit
from ledger_lab.studies.scaling.points import ScaledRun, ScalingPoint, ScalingStudy, Setting
from ledger_lab.studies.scaling.published import PublishedStudy
from ledger_lab.studies.scaling.rates import Kind, Refusal, SizeRates
from ledger_lab.studies.scaling.scaled_runs import scaled_runs
from ledger_lab.studies.scaling.studies import Efficiency, efficiency
from ledger_lab.studies.scaling.words import cautions, law_lines, noise_line, price_line, setting_line
from ledger_lab.units import percent, quantity, target_share, usd

if TYPE_CHECKING:
    from matplotlib import figure
    from matplotlib.axes import Axes

type Rates = SizeRates | ScaledRun
"""The rates of one size, or of one run."""

_LONGEST_NAME = 32
"""Characters of a task or a library in the name of a file."""
_MOST_NAMED = 16
"""With more sizes than these, only those on the Pareto front have their names in a figure of the cost."""
_MOST_SEPARATE_BARS = 80
"""Bars beyond which there is no room between them."""
_GAP = 0.8
"""Distance between the bars of two sizes [bars]."""
_LAW_HUE = 3
_MISSED = "target not reached: larger than shown"
"""Words for a hollow mark."""

_RATES: tuple[tuple[str, Callable[[Rates], float | None]], ...] = (
    ("simulation step", lambda rates: rates.fps_step),
    ("step and inference", lambda rates: rates.fps_step_inference),
    ("total, with learning", lambda rates: rates.fps_total),
)
_TOTAL = 2
"""Place of the rate that the laws are fitted to."""

_EFFICIENCIES: tuple[tuple[str, Callable[[Efficiency], float | None]], ...] = (
    ("of the rate", lambda found: found.of_rate),
    ("of the samples", lambda found: found.of_samples),
    ("of the training: rate × samples", lambda found: found.of_training),
    ("of the time, with start-up and scoring", lambda found: found.of_time),
)

PHASE_LOOKS = {
    Phase.STARTUP: ("#8a929c", ""),
    Phase.COMPILE: ("#5f6772", "////"),
    Phase.SIMULATE: ("#0072B2", ""),
    Phase.MANAGE: ("#56B4E9", ""),
    Phase.INFER: ("#009E73", ""),
    Phase.REPLAY_WRITE: ("#4C8C6B", "..."),
    Phase.RETURNS: ("#7CC8B0", "\\\\\\\\"),
    Phase.REPLAY_SAMPLE: ("#F2C879", "////"),
    Phase.LEARN: ("#E69F00", ""),
    Phase.SYNCHRONIZE: ("#CC79A7", "xxx"),
    Phase.TRANSFER: ("#A65A87", "---"),
    Phase.EVALUATE: ("#D55E00", ""),
    Phase.LOG: ("#C9B58B", "..."),
    Phase.CHECKPOINT: ("#8C6D00", "|||"),
    Phase.RESTART: ("#A8324A", "---"),
    Phase.SUSPENDED: ("#d8c9e8", "..."),
    Phase.SHUTDOWN: ("#b9c0c9", "\\\\\\\\"),
    Phase.UNATTRIBUTED: ("#3a3f46", "xxx"),
}
"""Colour and hatching of each phase, as on the page."""


@dataclass(frozen=True, kw_only=True)
class DrawingGroup:
    """Figures that belong together."""

    title: str
    drawings: tuple[Drawing, ...]
    notes: tuple[str, ...] = ()
    """Sentences about what is drawn, and why something is not."""


def draw_ledger(runs: Sequence[Run], summaries: Sequence[RunSummary], price: Price | None = None) -> list[DrawingGroup]:
    """Draw the scaling studies of a ledger: of the targets that were trained for with several sizes.

    Args:
        runs: The runs.
        summaries: Their summaries, in the same order.
        price: Price that replaces the declared prices; the summaries must have been made with it.
    """
    targets: dict[Hashable, list[tuple[Run, RunSummary]]] = {}
    for run, each in zip(runs, summaries, strict=True):
        if run.attempts:  # others have measured nothing
            targets.setdefault((each.measured_by, each.physics), []).append((run, each))
    chosen = [
        pair
        for members in targets.values()
        if len({(each.world_size, each.num_envs) for _, each in members}) > 1
        for pair in members
    ]
    scaled = scaled_runs([run for run, _ in chosen], [summary for _, summary in chosen], price)
    return draw_studies(find_studies(scaled))


def draw_studies(studies: Sequence[ScalingStudy]) -> list[DrawingGroup]:
    """Draw everything about the runs of a ledger that differ in their size.

    Args:
        studies: The studies of the ledger, as :func:`ledger_lab.studies.scaling.studies.find_studies` returns them.

    Returns:
        The figures of each target: first the cost against the time, then those of each setting. Targets and settings
        without several sizes are left out. Each figure has another name.
    """
    by_target: dict[Hashable, dict[Setting, list[ScalingStudy]]] = {}
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
    runs = [(f"published-{rates.processes}", rates) for rates in study.points]
    title = f"{shown(study.task)} · {shown(study.hardware)} · {study.kind} scaling, as published"
    return _draw_rates(f"published-{_slug(study.task)}-{study.kind}", title, runs, study.rate_law)


def _target_group(settings: dict[Setting, list[ScalingStudy]]) -> list[DrawingGroup]:
    """Return the figure of all settings with the same target, if two sizes have a price."""
    points = [(setting, point) for setting, own in settings.items() for point in _points(own)]
    sizes = [size for setting, point in points if (size := PricedSize.of(setting, point)).runs]
    if len(sizes) < 2:
        return []
    first = next(iter(settings))
    target = f"{shown(first.task)} · target {target_share(first.target_success)} · panel {shown(first.panel)}"
    drawing = _draw_money(f"{_slug(first.task)}-cost-against-time", f"{target}: cost against time", sizes)
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
        law = studies[0].batch_law
        drawing = _draw_steps(f"{name}-steps-against-batch", f"{words}: steps to the target", runs, law)
        notes = [setting_line(setting)]
        if isinstance(law, Refusal):
            notes += law_lines(law)
        if untrained := len(every) - len(runs):
            notes.append(f"not drawn: {untrained} of the runs, because they ended before their first iteration")
        notes += [] if (noise := noise_line(runs)) is None else [noise]
        groups.append(DrawingGroup(title=f"{words} · all batches", drawings=(drawing,), notes=tuple(notes)))
    return groups


def _study_group(study: ScalingStudy, name: str, title: str) -> DrawingGroup:
    """Return the figures of one study."""
    drawings = []
    if any(run.fps_total for run in study.runs):
        runs = [(run.run_id, run) for run in study.runs]
        drawings.append(_draw_rates(f"{name}-rate", f"{title}: rate", runs, study.rate_law))
    if any(run.identity.time_s > 0 for run in study.runs):
        drawings.append(_draw_times(f"{name}-time", f"{title}: time to the target", study.points))
    if any(sum(run.phases.values()) > 0 for run in study.runs):
        drawings.append(_draw_phases(f"{name}-phases", f"{title}: phases", study.points))
    law, notes = study.rate_law, [setting_line(study.setting), *cautions(study)]
    if isinstance(law, Refusal):
        notes += law_lines(law)
    elif not law.fits:
        notes.append(f"not drawn: {law.law.full_name} does not fit the runs (p = {law.misfit_p_value:.2g})")
    notes += [] if (noise := noise_line(study.runs)) is None else [noise]
    return DrawingGroup(title=title, drawings=tuple(drawings), notes=tuple(notes))


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

    def own(drawing: Drawing) -> Drawing:
        seen[drawing.name] += 1
        count = seen[drawing.name]
        return drawing if count == 1 else replace(drawing, name=f"{drawing.name}-{count}")

    return [replace(group, drawings=tuple(map(own, group.drawings))) for group in groups]


def _paint_runs(
    axes: Axes, runs: Sequence[tuple[str, float, float]], place: int, missed: frozenset[str] = frozenset()
) -> None:
    """Paint the marks of runs, side by side where they share a size.

    Args:
        axes: Where.
        runs: Name, size and figure of each.
        place: Place of the series.
        missed: Names of those that missed the target.
    """
    sizes = [size for _, size, _ in runs]
    for (name, _, figure_), x in zip(runs, side_by_side(sizes) if sizes else (), strict=True):
        run_mark(
            axes, x, figure_, name,
            colour=hue(place), shape=mark(place), missed=name in missed, crowded=is_crowded(sizes),
        )  # fmt: skip


def _missed(runs: Iterable[ScaledRun]) -> frozenset[str]:
    """Return the names of the runs that missed the target."""
    return frozenset(run.run_id for run in runs if not run.reached)


def _draw_rates(name: str, title: str, runs: Sequence[tuple[str, Rates]], law: RateFit | Refusal) -> Drawing:
    """Draw rates and efficiency of runs with several numbers of processes, with the ideal line and the fitted law."""
    sizes = sorted({rates.processes for _, rates in runs})
    usable = [law] if isinstance(law, RateFit) and law.fits else []

    def paint(canvas: figure.Figure) -> None:
        left, right = canvas.subplots(1, 2)
        _paint_rates(left, runs, usable, sizes)
        _paint_efficiency(right, runs, usable, sizes)
        measured = [place for place, (_, read) in enumerate(_RATES) if any(read(rates) for _, rates in runs)]
        handles = [
            key_of_marks(colour=hue(place), shape=mark(place), label=_RATES[place][0], line="-") for place in measured
        ]
        handles.append(key_of_marks(colour=SOFT, shape="", label="ideal: the rate grows like N", line=":"))
        handles += [
            key_of_marks(colour=hue(place + _LAW_HUE), shape="", label="\n".join(_law_words(fit)), line="-")
            for place, fit in enumerate(usable)
        ]
        head(canvas, title, handles)

    return Drawing(
        name=name,
        title=title,
        description=f"Environment steps per second, and efficiency, of {len(runs)} runs with "
        f"{joined(sizes)} processes, with the ideal line"
        + (f" and {joined([', '.join(_law_words(fit)) for fit in usable])}" if usable else ""),
        paint=paint,
    )


def _paint_rates(axes: Axes, runs: Sequence[tuple[str, Rates]], fits: Sequence[RateFit], sizes: Sequence[int]) -> None:
    """Paint the three rates of each run."""
    known: list[float] = []
    for place, (_, read) in enumerate(_RATES):
        series = [(f"{name}-{place}", rates.processes, rate) for name, rates in runs if (rate := read(rates))]
        _paint_runs(axes, series, place)
        medians = _medians(series)
        axes.plot(list(medians), list(medians.values()), color=hue(place), alpha=0.45, zorder=2)
        if medians:
            first, rate = next(iter(medians.items()))
            ends = [first, sizes[-1]], [rate, rate * sizes[-1] / first]
            axes.plot(*ends, color=SOFT, linestyle=":", zorder=1, gid=f"ideal-{place}")
        known += [rate for *_, rate in series]
    for place, fit in enumerate(fits):
        _paint_law(axes, fit, place, lambda processes: 1.0, "rate")
    size_axis(axes, sizes, "processes N")
    logarithmic(axes, "y", known, "environment steps per second of all processes [1/s]")
    axes.set_title("Rate")


def _paint_efficiency(
    axes: Axes, runs: Sequence[tuple[str, Rates]], fits: Sequence[RateFit], sizes: Sequence[int]
) -> None:
    """Paint the efficiency of the total rate of each run."""
    series = [(f"{name}-efficiency", rates.processes, rates.fps_total) for name, rates in runs if rates.fps_total]
    first, rate = next(iter(_medians(series).items()))
    single = rate / first
    _paint_runs(axes, [(name, size, rate / (single * size)) for name, size, rate in series], _TOTAL)
    axes.axhline(1.0, color=SOFT, linestyle=":", zorder=1, gid="ideal-efficiency")
    for place, fit in enumerate(fits):
        _paint_law(axes, fit, place, lambda processes: single * processes, "efficiency")
    size_axis(axes, sizes, "processes N")
    axes.set_ylim(0, max(1.08, axes.get_ylim()[1]))
    axes.set_ylabel(f"total rate per process ÷ that of N = {first}")
    axes.set_title("Efficiency of the total rate")


def _paint_law(axes: Axes, fit: RateFit, place: int, divisor: Callable[[float], float], panel: str) -> None:
    """Paint a fitted law with its band, between the measured sizes."""
    found = [(n, fit.at(n)) for n in between(fit.sizes[0], fit.sizes[-1])]
    colour, name = hue(place + _LAW_HUE), f"{panel}-{place}"
    axes.plot(
        [n for n, _ in found], [each.value / divisor(n) for n, each in found], color=colour, zorder=3, gid=f"law-{name}"
    )
    bands = [(n, each.interval) for n, each in found if each.interval is not None]
    if bands:
        lows, highs = ([interval[end] / divisor(n) for n, interval in bands] for end in (0, 1))
        axes.fill_between(
            [n for n, _ in bands], lows, highs, color=colour, alpha=0.16, linewidth=0, zorder=1, gid=f"band-{name}"
        )


def _law_words(fit: RateFit) -> list[str]:
    """Return a law and its coefficients."""
    words = [fit.law.full_name, f"contention {_with_interval(fit.contention, '{:.2g}'.format)}"]
    if fit.misfit_p_value is None:  # then no test tells whether it may be right
        words.append(f"largest deviation of a size {percent(fit.largest_deviation, 0)}")
    return words


def _with_interval(found: Figure, show: Callable[[float], str]) -> str:
    """Return a figure with its interval, if it has one."""
    if found.interval is None:
        return show(found.value)
    low, high = found.interval
    return f"{show(found.value)} [{show(low)}, {show(high)}]"


def _medians(series: Sequence[tuple[str, int, float]]) -> dict[int, float]:
    """Return the median of each size, the smallest size first."""
    sizes = sorted({size for _, size, _ in series})
    return {size: statistics.median(value for _, n, value in series if n == size) for size in sizes}


def _draw_steps(name: str, title: str, runs: Sequence[ScaledRun], law: BatchFit | Refusal) -> Drawing:
    """Draw the environment steps to the target against the batch, with the law that was fitted to them, if any."""
    batches = sorted({run.batch for run in runs})
    missed, fit = _missed(runs), None if isinstance(law, Refusal) else law

    def paint(canvas: figure.Figure) -> None:
        axes = canvas.subplots()
        _paint_runs(axes, [(run.run_id, run.batch, run.identity.steps) for run in runs], 0, missed)
        handles = [key_of_marks(colour=hue(0), shape=mark(0), label="run that reached the target")]
        if missed:
            handles.append(key_of_marks(colour=hue(0), shape=mark(0), label=_MISSED, missed=True))
        if fit is not None:
            _paint_batch_law(axes, fit)
            handles.append(key_of_marks(colour=hue(_LAW_HUE), shape="", label="\n".join(_batch_words(fit)), line="-"))
        size_axis(axes, batches, "batch: samples per iteration of all processes")
        logarithmic(axes, "y", [run.identity.steps for run in runs], "environment steps to the target")
        head(canvas, title, handles, columns=2)

    return Drawing(
        name=name,
        title=title,
        description=f"Environment steps to the target of {len(runs)} runs with batches of "
        f"{joined([quantity(batch) for batch in batches])} samples"
        + ("; runs that did not reach it are hollow" if missed else "")
        + ("" if fit is None else f", with the fitted {joined(_batch_words(fit))}"),
        paint=paint,
        size_in=(7.0, 4.4),
    )


def _paint_batch_law(axes: Axes, fit: BatchFit) -> None:
    """Paint the law with its band, between the measured batches."""
    smallest, largest = fit.batches[0], fit.batches[-1]
    found = [(batch, fit.at(batch)) for batch in between(smallest, largest)]
    axes.plot([x for x, _ in found], [y.value for _, y in found], color=hue(_LAW_HUE), zorder=3)
    bands = [(x, y.interval) for x, y in found if y.interval is not None]
    if bands:
        lows, highs = ([interval[end] for _, interval in bands] for end in (0, 1))
        axes.fill_between([x for x, _ in bands], lows, highs, color=hue(_LAW_HUE), alpha=0.16, linewidth=0)
    critical = fit.critical_batch.value
    if smallest <= critical <= largest:
        axes.axvline(critical, color=hue(_LAW_HUE), linewidth=0.9, linestyle=":")
        axes.annotate(
            "B_crit", (critical, 1), xycoords=("data", "axes fraction"), xytext=(3, -9), textcoords="offset points",
            color=hue(_LAW_HUE), fontsize=8,
        )  # fmt: skip


def _batch_words(fit: BatchFit) -> tuple[str, str, str]:
    """Return the law, and its two coefficients, which may be infinite."""
    fewest, critical = (
        _with_interval(each, lambda value: quantity(value) if math.isfinite(value) else "∞")
        for each in (fit.fewest_samples, fit.critical_batch)
    )
    return "E_min (1 + B / B_crit)", f"E_min = {fewest} steps", f"B_crit = {critical} samples"


def _draw_times(name: str, title: str, points: Sequence[ScalingPoint]) -> Drawing:
    """Draw the time to the target against the number of processes, and what became of the efficiency."""
    runs = [run for point in points for run in point.runs]
    sizes = sorted({point.processes for point in points})
    missed = _missed(runs)

    def paint(canvas: figure.Figure) -> None:
        left, right = canvas.subplots(1, 2)
        _paint_times(left, runs, points, sizes)
        drawn = _paint_efficiencies(right, points, sizes)
        handles = [key_of_marks(colour=hue(0), shape=mark(0), label="run, and median of all runs of a size", line="-")]
        if missed:
            handles.append(key_of_marks(colour=hue(0), shape=mark(0), label=_MISSED, missed=True))
        handles.append(key_of_marks(colour=SOFT, shape="", label="ideal: as many steps, at N times the rate", line=":"))
        handles += [
            key_of_marks(
                colour=hue(place + 1), shape=mark(place + 1), label=f"efficiency {_EFFICIENCIES[place][0]}", line="-"
            )
            for place in drawn
        ]
        head(canvas, title, handles, columns=2)

    return Drawing(
        name=name,
        title=title,
        description=f"Wall-clock time to the target of {len(runs)} runs with {joined(sizes)} processes"
        + ("; runs that did not reach it are hollow" if missed else "")
        + ", and the efficiency of rate, samples and time",
        paint=paint,
        size_in=(9.0, 4.7),
    )


def _paint_times(axes: Axes, runs: Sequence[ScaledRun], points: Sequence[ScalingPoint], sizes: Sequence[int]) -> None:
    """Paint the time to the target of each run."""
    seconds, symbol = time_unit(max(run.identity.time_s for run in runs))
    _paint_runs(axes, [(run.run_id, run.processes, run.identity.time_s / seconds) for run in runs], 0, _missed(runs))
    medians = [
        (point.processes, time_s / seconds)
        for point in points
        if (time_s := point.median_to_target(lambda run: run.time_to_target_s)) is not None
    ]
    axes.plot([x for x, _ in medians], [y for _, y in medians], color=hue(0), alpha=0.45, zorder=2)
    if medians and medians[0][0] == sizes[0]:
        first, time = medians[0]
        axes.plot([first, sizes[-1]], [time, time * first / sizes[-1]], color=SOFT, linestyle=":", zorder=1)
    size_axis(axes, sizes, "processes N")
    times = [run.identity.time_s / seconds for run in runs]
    logarithmic(axes, "y", times, f"wall-clock time to the target [{symbol}]", lambda value: f"{value:.3g}")
    axes.set_title("Time to the target")


def _paint_efficiencies(axes: Axes, points: Sequence[ScalingPoint], sizes: Sequence[int]) -> list[int]:
    """Paint the efficiencies of the sizes, and return the places of those that are known."""
    found = [(point.processes, efficiency(point, points[0])) for point in points]
    drawn = []
    for place, (_, read) in enumerate(_EFFICIENCIES):
        known = {size: share for size, each in found if (share := read(each)) is not None}
        if len(known) > 1:
            drawn.append(place)
            axes.plot(list(known), list(known.values()), color=hue(place + 1), marker=mark(place + 1), markersize=5)
    axes.axhline(1.0, color=SOFT, linestyle=":", zorder=1)
    size_axis(axes, sizes, "processes N")
    axes.set_ylim(0, max(1.08, axes.get_ylim()[1]))
    axes.set_ylabel(f"efficiency of medians, relative to N = {sizes[0]}")
    axes.set_title("Efficiency")
    return drawn


def _draw_phases(name: str, title: str, points: Sequence[ScalingPoint]) -> Drawing:
    """Draw the share of each phase of the wall-clock time of each run, one bar per run."""
    groups = [(point, [run for run in point.runs if sum(run.phases.values()) > 0]) for point in points]
    groups = [(point, runs) for point, runs in groups if runs]
    counts = Counter(point.processes for point, _ in groups)

    def words(point: ScalingPoint) -> str:  # with its machines where the processes do not tell sizes apart
        beside = f" on {point.machines or '?'}" if counts[point.processes] > 1 else ""
        return f"{point.processes}{beside}"

    def paint(canvas: figure.Figure) -> None:
        from matplotlib.patches import Patch
        from matplotlib.ticker import PercentFormatter

        axes = canvas.subplots()
        crowded = sum(len(runs) for _, runs in groups) > _MOST_SEPARATE_BARS
        at, centres = 0.0, []
        handles: dict[Phase, Patch] = {}
        for _, runs in groups:
            centres.append(at + (len(runs) - 1) / 2)
            for run in runs:
                below, whole = 0.0, sum(run.phases.values())
                for phase, (colour, hatch) in PHASE_LOOKS.items():
                    share = run.phases.get(phase, 0.0) / whole
                    if share <= 0:
                        continue
                    look: dict[str, Any] = {"facecolor": colour, "hatch": hatch, "edgecolor": PAPER}
                    axes.bar(
                        at, share, 1.0 if crowded else 0.9, bottom=below, gid=f"run-{shown(run.run_id)}-{phase}",
                        linewidth=0.0 if crowded else 0.4, **look,
                    )  # fmt: skip
                    handles[phase] = Patch(label=str(phase), linewidth=0.4, **look)
                    below += share
                at += 1
            at += _GAP
        axes.set_xticks(centres, [words(point) for point, _ in groups])
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
        axes.set(ylim=(0, 1), xlabel="processes N, one bar per run", ylabel="share of the wall-clock time")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        head(canvas, title, [handles[phase] for phase in PHASE_LOOKS if phase in handles], columns=6)

    return Drawing(
        name=name,
        title=title,
        description=f"Share of each phase of the wall-clock time of {sum(len(runs) for _, runs in groups)} runs with "
        f"{joined(sorted(counts))} processes, one bar per run",
        paint=paint,
        size_in=(9.0, 4.2),
    )


@dataclass(frozen=True, kw_only=True)
class PricedSize:
    """All runs of one size with a price."""

    series: str
    """What its sizes have in common, such as library and instance."""
    label: str
    """The size."""
    runs: tuple[ScaledRun, ...]
    medians: tuple[float, float] | None
    """Median time [s] and cost [USD] to the target; ``None`` if half of the runs or more missed it."""

    @classmethod
    def of(cls, setting: Setting, point: ScalingPoint) -> PricedSize:
        """Return the runs of a size that have a price."""
        runs = tuple(run for run in point.runs if _usd(run) and run.identity.time_s > 0)
        priced = replace(point, runs=runs)
        time_s = priced.median_to_target(lambda run: run.time_to_target_s)
        cost_usd = priced.median_to_target(lambda run: run.cost_to_target_usd)
        words = (setting.rl_library, setting.instance, setting.treatment)
        machines = f" on {point.machines} machines" if (point.machines or 1) > 1 else ""
        return cls(
            series=" · ".join(shown(each) for each in words if each),
            label=f"{point.processes} × {point.num_envs:,}{machines}",
            runs=runs,
            medians=None if time_s is None or cost_usd is None else (time_s, cost_usd),
        )


def _usd(run: ScaledRun) -> float:
    """Return what a run cost to the target; without the target, until it ended [USD]. It is 0 without a price."""
    return (run.cost_to_target_usd if run.reached else run.billable_usd) or 0.0


def _draw_money(name: str, title: str, sizes: Sequence[PricedSize]) -> Drawing:
    """Draw the cost against the time to the target, with the Pareto front of the medians."""
    series = list(dict.fromkeys(each.series for each in sizes))
    runs = [run for each in sizes for run in each.runs]
    front = pareto_front(sizes, lambda size: size.medians)
    missed = _missed(runs)

    def paint(canvas: figure.Figure) -> None:
        axes = canvas.subplots()
        seconds, symbol = time_unit(max(run.identity.time_s for run in runs))
        crowded = is_crowded([place for place, each in enumerate(sizes) for _ in each.runs])
        cheapest_first = sorted(sizes, key=lambda size: (size.medians[1] if size.medians else 0.0, size.label))
        for number, each in enumerate(cheapest_first):
            place = series.index(each.series)
            for run in each.runs:
                run_mark(
                    axes, run.identity.time_s / seconds, _usd(run), run.run_id, colour=hue(place), shape=mark(place),
                    missed=run.run_id in missed, crowded=crowded, arrow=(11.0, 11.0),
                )  # fmt: skip
            if each.medians is not None:
                named = shown(each.label, 24) if len(sizes) <= _MOST_NAMED or each in front else ""
                at = (each.medians[0] / seconds, each.medians[1])
                _paint_median(axes, at, hue(place), named, below=number % 2 == 1)
        corners = [each.medians for each in front if each.medians is not None]
        axes.step(
            [time_s / seconds for time_s, _ in corners], [cost for _, cost in corners], where="post", color=INK,
            linewidth=1.1, zorder=2, gid="front",
        )  # fmt: skip
        times = [run.identity.time_s / seconds for run in runs]
        logarithmic(axes, "x", times, f"wall-clock time to the target [{symbol}]", lambda value: f"{value:.3g}")
        costs = [_usd(run) for run in runs]
        logarithmic(axes, "y", costs, "cost to the target [USD]", lambda amount: f"${quantity(amount)}")
        handles = [
            key_of_marks(colour=hue(place), shape=mark(place), label=shown(each)) for place, each in enumerate(series)
        ]
        if missed:
            handles.append(key_of_marks(colour=SOFT, shape="o", label=f"{_MISSED}, in time and cost", missed=True))
        if front:
            handles.append(key_of_marks(colour=INK, shape="", label="Pareto front of the medians (+)", line="-"))
        head(canvas, title, handles, columns=2)

    best = "; ".join(
        f"{shown(each.series)}, {shown(each.label)}: {each.medians[0]:.4g} s, {usd(each.medians[1])}"
        for each in front
        if each.medians is not None
    )
    return Drawing(
        name=name,
        title=title,
        description=f"Cost against time to the target of {len(runs)} runs of {len(sizes)} sizes"
        + ("; runs that did not reach it are hollow" if missed else "")
        + (f". On the Pareto front of the medians, the fastest first: {best}" if front else ""),
        paint=paint,
        size_in=(7.5, 4.4 + 0.1 * len(series)),  # the legend has two columns
    )


def _paint_median(axes: Axes, at: tuple[float, float], colour: str, name: str, *, below: bool) -> None:
    """Paint the medians of a size, with a name beside them."""
    axes.plot(*[[each] for each in at], linestyle="none", marker="+", markersize=11, color=INK, zorder=5)
    # Above and to the left, or below and to the right: runs of a size scatter along the other diagonal.
    axes.annotate(
        name, at, xytext=(6, -5) if below else (-6, 5), textcoords="offset points", ha="left" if below else "right",
        va="top" if below else "bottom", fontsize=8, color=colour, zorder=3,
    )  # fmt: skip
