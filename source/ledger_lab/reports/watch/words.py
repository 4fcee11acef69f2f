"""What a watch found, in words and on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ledger_lab.names import visible
from ledger_lab.reports.watch.model import Alert, Estimate, RunProgress, Severity, Spend, State, Watch
from ledger_lab.units import MISSING, counted, duration, percent, usd

_LOOKS: dict[Severity, tuple[str, str]] = {
    "critical": ("!!", "bold red"),
    "warning": ("!", "yellow"),
    "notice": ("·", ""),
}
"""A sign for readers who cannot distinguish colours, and a style."""
_STATE_STYLES = {State.RUNNING: "cyan", State.HUNG: "red", State.SILENT: "red", State.LOST: "red"}
_TITLES = ("run", "state", "time left", "cost left", "per hour", "cost", "iterations", "best score", "spent")
"""Columns, the most important ones first: a narrow terminal cuts the last ones."""


def hours(amount: float | None) -> str:
    """Return an amount of time in hours."""
    return MISSING if amount is None else f"{amount:.3g} h"


def estimated(estimate: Estimate | None, show: Callable[[float | None], str]) -> str:
    """Return an estimate as ``0:40 [0:10, 1:30]``, or ``≤ 1:30`` if only a bound is known.

    Args:
        estimate: The estimate.
        show: Writes an amount.
    """
    if estimate is None:
        return MISSING
    low, high = estimate.low, estimate.high
    if estimate.expected is None:
        return f"[{show(low)}, {show(high)}]" if low is not None else MISSING if high is None else f"≤ {show(high)}"
    if low is None and high is None:
        return f"≈ {show(estimate.expected)}"
    return f"{show(estimate.expected)} [{show(low)}, {show(high)}]"


def score_words(progress: RunProgress) -> str:
    """Return the best score of a run, and the target."""
    if progress.target_success is None:
        return MISSING
    target = f"of {percent(progress.target_success, 0)}"
    return f"{MISSING if progress.best_score is None else percent(progress.best_score)} {target}"


def iteration_words(progress: RunProgress) -> str:
    """Return the iterations done, of all."""
    return MISSING if progress.max_iterations is None else f"{progress.iterations}/{progress.max_iterations}"


def rate(usd_per_hour: float | None) -> str:
    """Return what something costs per hour."""
    return "cost unknown" if usd_per_hour is None else f"{usd(usd_per_hour)}/h"


def spend_words(spend: Spend) -> str:
    """Return the spend of a cohort or a study, its forecast and its budget in one line."""
    missing = "" if spend.missing is None else f", {spend.missing} of {spend.planned} trainings still to start"
    forecast, budget = forecast_words(spend), budget_words(spend)
    parts = {
        f"{counted(spend.runs, 'run')}, {spend.live_runs} live{missing}": True,
        f"{usd(spend.spent_usd)} and {hours(spend.spent_h)} spent": True,
        f"{usd(spend.evaluation_usd)} for separate evaluations": spend.evaluation_usd is not None,
        f"now {rate(spend.usd_per_hour)}": spend.live_runs,
        f"forecast {forecast}": forecast and (spend.live_runs or spend.missing),
        f"no forecast of the cost: {spend.unknown}": spend.unknown is not None,
        f"budget {budget}": budget,
    }
    return f"{spend.kind} {spend.name}: {' · '.join(part for part, holds in parts.items() if holds)}"


def forecast_words(spend: Spend) -> str:
    """Return the forecasts of a spend, in money and in time; empty without one."""
    found = [estimated(spend.forecast_usd, usd), estimated(spend.forecast_h, hours)]
    return " and ".join(each for each in found if each != MISSING)


def budget_words(spend: Spend) -> str:
    """Return the budgets of a study, of money and of time; empty without one."""
    return " and ".join(each for each in (usd(spend.budget_usd), hours(spend.budget_h)) if each != MISSING)


def alert_lines(alerts: Iterable[Alert]) -> list[Text]:
    """Return one line per alert.

    Args:
        alerts: The alerts.
    """
    lines = []
    for alert in alerts:
        sign, style = _LOOKS[alert.severity]
        about = f"{alert.kind.replace('_', ' ')}: {alert.subject_kind} {alert.subject}"
        cost = f"{rate(alert.usd_per_hour)} → {alert.way_out}"
        lines.append(Text(visible(f"{sign} {about}: {alert.sentence}; {cost}"), style=style))
    return lines


def render_watch(watch: Watch) -> Group:
    """Draw a watch.

    Args:
        watch: What was found.
    """
    costing = [run for run in watch.runs if run.is_live and run.run_id is not None]
    rates = [run.usd_per_hour for run in costing if run.usd_per_hour is not None]
    states = Counter(run.state for run in watch.runs)
    counts = ", ".join(f"{states[state]} {state}" for state in State if states[state]) or "nothing goes on"
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


def _table(runs: Sequence[RunProgress]) -> list[Table]:
    """Return a table with a line per run."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in _TITLES:
        table.add_column(title, no_wrap=True)
    for run in runs:
        table.add_row(*map(visible, _cells(run)), style=_STATE_STYLES.get(run.state, ""))
    return [table] if runs else []


def _cells(run: RunProgress) -> tuple[str, ...]:
    """Return the cells of a run."""
    beside = "" if run.cohort is None else f" {run.cohort}"
    return (
        f"{run.name}{beside}" + ("" if run.seed is None else f" seed {run.seed}"),
        str(run.state) if run.said is None else f"{run.state} ({run.said})",
        estimated(run.left_s, duration),
        estimated(run.left_usd, usd),
        MISSING if run.usd_per_hour is None else f"{usd(run.usd_per_hour)}/h",
        usd(run.usd),
        iteration_words(run),
        score_words(run),
        duration(run.wall_s) if run.run_id is not None else MISSING,
    )
