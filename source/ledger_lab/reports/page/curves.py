"""Keeps the curves of runs, for pages that are made again and again while the runs go on."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_lab.ledger import Run, Status
from ledger_lab.reports.page.series import Curve, TelemetrySeries, return_curve, telemetry_series

_GROWTH = 0.01
"""Share by which a run grows before its curves are computed again. This reads all of its rows, so the work per new row
stays bounded, however long the run is; and one percent of a curve is less than a point of it."""


@dataclass(frozen=True, kw_only=True)
class RunCurves:
    """Curves of a run over its wall-clock time."""

    returns: Curve | None
    """Training return."""
    telemetry: list[TelemetrySeries]


@dataclass(frozen=True)
class _Kept:
    """Curves, and what they were computed from."""

    run: Run
    rows: int
    points: int
    metered: bool
    curves: RunCurves


class CurveKeeper:
    """Computes the curves of a run, and keeps them until the run has grown."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._kept: dict[str, _Kept] = {}

    def curves(self, run: Run, points: int, *, metered: bool) -> RunCurves:
        """Return the curves of a run; of one that still runs, they may lack its last percent.

        Args:
            run: The run.
            points: Largest number of points of each curve.
            metered: Whether to include its telemetry.
        """
        kept = self._kept.get(run.run_id)
        if kept is None or (kept.points, kept.metered) != (points, metered) or not _holds(kept, run):
            curves = RunCurves(
                returns=return_curve(run, points), telemetry=telemetry_series(run, points) if metered else []
            )
            kept = _Kept(run, run.rows, points, metered, curves)
            self._kept[run.run_id] = kept
        return kept.curves


def _holds(kept: _Kept, run: Run) -> bool:
    """Tell whether kept curves still show a run."""
    if kept.run is run:
        return True
    if kept.run.directory != run.directory or not run.attempts or run.attempts[-1].status is not Status.RUNNING:
        return False
    return kept.rows <= run.rows < kept.rows * (1 + _GROWTH) or kept.rows == run.rows
