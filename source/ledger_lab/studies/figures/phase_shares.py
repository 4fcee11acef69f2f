"""Where the time went, by the number of processes: one bar per run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ledger_lab.ledger.meters import Phase
from ledger_lab.reports.figures.drawing import PAPER, Drawing
from ledger_lab.reports.figures.look import head, joined, shown
from ledger_lab.studies.scaling.points import ScalingPoint

if TYPE_CHECKING:
    from matplotlib import figure

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

_CROWD = 80
"""Bars beyond which there is no room between them."""
_GAP = 0.8
"""Distance between the bars of two sizes [bars]."""


def draw_phases(name: str, title: str, points: Sequence[ScalingPoint]) -> Drawing:
    """Draw the share of each phase of the wall-clock time of each run.

    Args:
        name: Name of the files.
        title: Title of the figure.
        points: The sizes of a study, the smallest first.
    """
    groups = [(point, [run for run in point.runs if sum(run.phases.values()) > 0]) for point in points]
    groups = [(point, runs) for point, runs in groups if runs]

    def paint(canvas: figure.Figure) -> None:
        from matplotlib.patches import Patch
        from matplotlib.ticker import PercentFormatter

        axes = canvas.subplots()
        crowded = sum(len(runs) for _, runs in groups) > _CROWD
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
                    axes.bar(
                        at, share, 1.0 if crowded else 0.9, bottom=below, gid=f"run-{shown(run.run_id)}-{phase}",
                        facecolor=colour, hatch=hatch, edgecolor=PAPER, linewidth=0.0 if crowded else 0.4,
                    )  # fmt: skip
                    handles[phase] = Patch(
                        label=str(phase), facecolor=colour, hatch=hatch, edgecolor=PAPER, linewidth=0.4
                    )
                    below += share
                at += 1
            at += _GAP
        axes.set_xticks(centres, [_size_words(point, groups) for point, _ in groups])
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
        axes.set(ylim=(0, 1), xlabel="processes N, one bar per run", ylabel="share of the wall-clock time")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        head(canvas, title, [handles[phase] for phase in PHASE_LOOKS if phase in handles], columns=6)

    sizes = sorted({point.processes for point, _ in groups})
    return Drawing(
        name=name,
        title=title,
        description=f"Share of each phase of the wall-clock time of {sum(len(runs) for _, runs in groups)} runs with "
        f"{joined(sizes)} processes, one bar per run",
        paint=paint,
        size_in=(9.0, 4.2),
    )


def _size_words(point: ScalingPoint, groups: Sequence[tuple[ScalingPoint, object]]) -> str:
    """Return the name of a size; with its machines where the processes do not tell sizes apart."""
    same = [other for other, _ in groups if other.processes == point.processes]
    return str(point.processes) if len(same) == 1 else f"{point.processes} on {point.machines or '?'}"
