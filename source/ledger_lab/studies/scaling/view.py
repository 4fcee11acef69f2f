"""Scaling studies as text for the terminal, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any, overload

from rich.console import Group
from rich.text import Text

from ledger_lab.reports.columns import summarize
from ledger_lab.reports.terminal_table import table_lines
from ledger_lab.studies.scaling.batch import BatchFit
from ledger_lab.studies.scaling.laws import Figure, RateFit
from ledger_lab.studies.scaling.points import ScaledRun, ScalingPoint, ScalingStudy
from ledger_lab.studies.scaling.published import Published
from ledger_lab.studies.scaling.rates import Kind, Refusal, SizeRates
from ledger_lab.studies.scaling.table import IdentityRow, SizeFacts, SizeRow, size_name
from ledger_lab.studies.scaling.words import (
    apart_line,
    cautions,
    code_line,
    differing_line,
    few_iterations_line,
    identity_lines,
    law_lines,
    noise_line,
    phase_line,
    price_line,
    setting_line,
)
from ledger_lab.units import percent, quantity


def render_studies(studies: Sequence[ScalingStudy], width: int) -> Group:
    """Draw scaling studies: rates, phases, waits and load by size; steps, time and cost to the target; fits; identity.

    Args:
        studies: The studies; those of one setting follow each other.
        width: Columns of the terminal.
    """
    blocks: list[Text] = []
    single: list[str] = []
    settings = [*{study.setting: None for study in studies}]
    for setting, group in groupby(studies, key=lambda study: study.setting):
        own = list(group)
        runs = [*{run.run_id: run for study in own for run in study.runs}.values()]
        if len({(run.processes, run.num_envs, run.machines) for run in runs}) == 1:
            size = size_name(runs[0].processes, runs[0].num_envs, runs[0].machines)
            why = apart_line(setting, settings)
            single.append(f"{setting_line(setting)}: {len(runs)} of size {size}{f'; {why}' if why else ''}")
            continue
        blocks.append(Text(setting_line(setting), style="bold"))
        notes = [apart_line(setting, settings), code_line(runs), price_line(runs), differing_line(own)]
        blocks += [Text(note, style="yellow") for note in notes if note is not None]
        for study in own:
            blocks += _study(study, width)
        blocks += map(Text, law_lines(own[0].batch_law))
        if (noise := noise_line(runs)) is not None:
            blocks.append(Text(noise, style="dim"))
        blocks += _identity(runs, width)
        blocks.append(Text())
    if single:
        blocks.append(Text("Runs that have only one size, so there is nothing to compare:"))
        blocks += [Text(f"  {line}", style="dim") for line in single]
    return Group(*blocks)


def render_published(published: Published, width: int) -> Group:
    """Draw published rates, with the same tables and fits.

    Args:
        published: The rates.
        width: Columns of the terminal.
    """
    blocks = [Text(published.about, style="bold"), Text(f"source: {published.source}"), Text()]
    for study in published.studies:
        blocks.append(Text(f"task {study.task} · {study.hardware} · {_kind_words(study.kind, study.points[0])}"))
        rows = [summarize(SizeRow, SizeFacts(each, study.points[0])) for each in study.points]
        blocks += [*table_lines(SizeRow, rows, width), *map(Text, law_lines(study.rate_law))]
        blocks.append(Text())
    if published.machines:
        best = max(machine.fps_total for machine in published.machines)
        for machine in published.machines:
            blocks.append(
                Text(
                    f"task {machine.task} · one {machine.hardware}: {quantity(machine.fps_total)} steps/s in all, "
                    f"{percent(machine.fps_total / best, 0)} of the fastest"
                )
            )
    blocks += [
        Text(
            f"A minibatch of {published.minibatch_size} samples at a horizon of {published.horizon} steps needs at "
            f"least {published.fewest_envs} environments in each process; train.py checks this before it starts."
        ),
        Text(
            "The source has one figure per size, no target and no cost. So there are no intervals, and nothing is "
            "known about steps, time or cost to a target."
        ),
    ]
    return Group(*blocks)


def studies_json(studies: Sequence[ScalingStudy]) -> list[dict[str, Any]]:
    """Return scaling studies as plain JSON values. An infinite figure is ``"infinite"``.

    Args:
        studies: The studies.
    """
    return [
        {
            "setting": asdict(study.setting),
            "kind": str(study.kind),
            "sizes": [_size_json(point, _base(study)) for point in study.points],
            "rate_law": _law_json(study.rate_law),
            "batch_law": _law_json(study.batch_law),
            "cautions": cautions(study),
        }
        for study in studies
    ]


def published_json(published: Published) -> dict[str, Any]:
    """Return published rates and their analysis as plain JSON values.

    Args:
        published: The rates.
    """
    studies = [
        {
            "task": study.task,
            "hardware": study.hardware,
            "kind": str(study.kind),
            "sizes": [
                {**asdict(each), **asdict(summarize(SizeRow, SizeFacts(each, study.points[0])))}
                for each in study.points
            ],
            "rate_law": _law_json(study.rate_law),
        }
        for study in published.studies
    ]
    return {**asdict(published), "fewest_envs": published.fewest_envs, "studies": studies}


def _study(study: ScalingStudy, width: int) -> Iterator[Text]:
    """Yield what belongs to one study."""
    base = _base(study)
    yield Text(_kind_words(study.kind, study.points[0].rates), style="italic")
    rows = [summarize(SizeRow, SizeFacts.of(point, base)) for point in study.points]
    yield from table_lines(SizeRow, rows, width)
    for point, row in zip(study.points, rows, strict=True):
        if (few := few_iterations_line(point)) is not None:
            yield Text(f"{row.size}: {few}", style="yellow")
        yield Text(f"{row.size}: {phase_line(point)}", style="dim")
    yield from map(Text, law_lines(study.rate_law))


def _base(study: ScalingStudy) -> ScalingPoint | None:
    """Return the size that speed-up and efficiency refer to; ``None`` if there is no strong or weak scaling."""
    return None if study.kind is Kind.OTHER else study.points[0]


def _kind_words(kind: Kind, smallest: SizeRates) -> str:
    """Return a kind of scaling in words."""
    envs = smallest.num_envs
    if kind is Kind.STRONG:
        return f"strong scaling: {'equally many' if envs is None else envs * smallest.processes} environments in all"
    if kind is Kind.WEAK:
        return f"weak scaling: {'equally many' if envs is None else envs} environments in each process"
    return "sizes that belong to neither strong nor weak scaling"


def _identity(runs: Sequence[ScaledRun], width: int) -> list[Text]:
    """Return where the time of each run went, and whether its parts sum to it."""
    table = table_lines(IdentityRow, [summarize(IdentityRow, run) for run in runs], width)
    summed, *rests = identity_lines(runs)
    return [*table, Text(summed, style="dim"), *(Text(line, style="yellow") for line in rests)]


def _size_json(point: ScalingPoint, base: ScalingPoint | None) -> dict[str, Any]:
    """Return a size of a study with its runs as plain JSON values."""
    row = summarize(SizeRow, SizeFacts.of(point, base))
    runs = [
        {
            **asdict(replace(run, settings={})),
            "price": run.price.to_dict(),
            "gradient_noise": _figure_json(run.gradient_noise),
            "batch": run.batch,
            "minibatch": run.minibatch,
            "identity": asdict(summarize(IdentityRow, run)),
        }
        for run in point.runs
    ]
    return {
        "processes": point.processes,
        "machines": point.machines,
        "num_envs": point.num_envs,
        **asdict(row),
        "gradient_noise": _figure_json(row.gradient_noise),
        "runs": runs,
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
            "predictions": [{"batch": batch, **_figure_json(law.at(batch))} for batch in law.batches],
        }
    return {
        "law": str(law.law),
        "sizes": list(law.sizes),
        "fits": law.fits,
        "misfit_p_value": law.misfit_p_value,
        "contention": _figure_json(law.contention),
        "single_rate": _figure_json(law.single_rate),
        "predictions": [{"processes": size, **_figure_json(law.at(size))} for size in (law.sizes if law.fits else ())],
    }


@overload
def _figure_json(figure: Figure) -> dict[str, Any]: ...
@overload
def _figure_json(figure: None) -> None: ...
def _figure_json(figure: Figure | None) -> dict[str, Any] | None:
    """Return a figure with its interval as plain JSON values."""
    if figure is None:
        return None

    def plain(value: float) -> float | str:
        return value if math.isfinite(value) else "infinite"

    interval = None if figure.interval is None else [plain(end) for end in figure.interval]
    return {"value": plain(figure.value), "interval": interval}
