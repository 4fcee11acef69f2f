"""Draws a watch in the terminal: alerts first, then one line per run, then the spend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from ledger_lab.names import visible
from ledger_lab.reports.watch.model import Alert, RunProgress, Severity, State, Watch
from ledger_lab.reports.watch.words import (
    SIGNS,
    alert_words,
    estimate_time,
    estimate_usd,
    iteration_words,
    rate,
    score_words,
    spend_words,
    state_words,
)
from ledger_lab.units import MISSING, duration, usd

_STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.NOTICE: ""}
_STATE_STYLES = {State.RUNNING: "cyan", State.HUNG: "red", State.SILENT: "red", State.LOST: "red"}
_TITLES = ("run", "state", "time left", "cost left", "per hour", "cost", "iterations", "best score", "spent")
"""Columns, the most important ones first: a narrow terminal cuts the last ones."""
_GAP = "  "


def alert_lines(alerts: Iterable[Alert]) -> list[Text]:
    """Return one line per alert.

    Args:
        alerts: The alerts.
    """
    return [Text(visible(f"{SIGNS[a.severity]} {alert_words(a)}"), style=_STYLES[a.severity]) for a in alerts]


def render_watch(watch: Watch) -> Group:
    """Draw a watch.

    Args:
        watch: What was found.
    """
    costing = [run for run in watch.runs if run.is_live and run.run_id is not None]
    rates = [run.usd_per_hour for run in costing if run.usd_per_hour is not None]
    counts = ", ".join(_counted(watch.runs)) or "nothing goes on"
    unpriced = len(costing) - len(rates)
    money = f" · {rate(sum(rates))}" if rates else ""
    money += f" · {unpriced} without a price" if unpriced else ""
    return Group(
        Text(f"{watch.at:%Y-%m-%d %H:%M:%S} UTC · {visible(watch.log_root)} · {counts}{money}"),
        *alert_lines(watch.alerts),
        *_table(watch.runs),
        *(Text(visible(spend_words(each))) for each in (*watch.studies, *watch.cohorts)),
        *(Text(visible(f"not known: {note}"), style="yellow") for note in watch.notes),
    )


def _counted(runs: Sequence[RunProgress]) -> Iterator[str]:
    """Yield how many runs are in each state."""
    for state in State:
        if count := sum(run.state is state for run in runs):
            yield f"{count} {state}"


def _table(runs: Sequence[RunProgress]) -> list[Text]:
    """Return a heading and one line per run."""
    if not runs:
        return []
    rows = [_TITLES, *(tuple(map(visible, _cells(run))) for run in runs)]
    widths = [max(cell_len(row[place]) for row in rows) for place in range(len(_TITLES))]
    lines = [
        Text(
            _GAP.join(cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)).rstrip(),
            no_wrap=True,
            overflow="ellipsis",
        )
        for row in rows
    ]
    lines[0].stylize("bold")
    for line, run in zip(lines[1:], runs, strict=True):
        line.stylize(_STATE_STYLES.get(run.state, ""))
    return lines


def _cells(run: RunProgress) -> tuple[str, ...]:
    """Return the cells of a run."""
    beside = "" if run.cohort is None else f" {run.cohort}"
    return (
        f"{run.name}{beside}" + ("" if run.seed is None else f" seed {run.seed}"),
        state_words(run),
        estimate_time(run.left_s),
        estimate_usd(run.left_usd),
        MISSING if run.usd_per_hour is None else f"{usd(run.usd_per_hour)}/h",
        usd(run.usd),
        iteration_words(run),
        score_words(run),
        duration(run.wall_s) if run.run_id is not None else MISSING,
    )
