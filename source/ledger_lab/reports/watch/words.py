"""What a watch found, in words and on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from ledger_lab.names import visible
from ledger_lab.reports.watch.model import Alert, Estimate, RunProgress, Severity, Spend, State, Watch
from ledger_lab.units import MISSING, duration, percent, usd

SIGNS = {Severity.CRITICAL: "!!", Severity.WARNING: "!", Severity.NOTICE: "·"}
"""A sign for each severity, for readers who cannot distinguish colours."""
_STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.NOTICE: ""}
_STATE_STYLES = {State.RUNNING: "cyan", State.HUNG: "red", State.SILENT: "red", State.LOST: "red"}
_TITLES = ("run", "state", "time left", "cost left", "per hour", "cost", "iterations", "best score", "spent")
"""Columns, the most important ones first: a narrow terminal cuts the last ones."""
_GAP = "  "


def estimate_time(estimate: Estimate | None) -> str:
    """Return an estimated time as ``0:40 [0:10, 1:30]``, or ``≤ 1:30`` if only a bound is known."""
    return _estimated(estimate, duration)


def estimate_usd(estimate: Estimate | None) -> str:
    """Return an estimated amount of money, in the same form."""
    return _estimated(estimate, usd)


def estimate_hours(estimate: Estimate | None) -> str:
    """Return an estimated number of hours, in the same form."""
    return _estimated(estimate, hours)


def hours(amount: float | None) -> str:
    """Return an amount of time in hours."""
    return MISSING if amount is None else f"{amount:.3g} h"


def _estimated(estimate: Estimate | None, show: Callable[[float], str]) -> str:
    """Return an estimate, with its interval if it has one."""
    if estimate is None:
        return MISSING
    low, high = estimate.low, estimate.high
    if estimate.expected is None and low is not None and high is not None:
        return f"[{show(low)}, {show(high)}]"
    if estimate.expected is None:
        return f"≤ {show(high)}" if high is not None else MISSING if low is None else f"≥ {show(low)}"
    if low is None and high is None:
        return f"≈ {show(estimate.expected)}"
    ends = ("0" if low is None else show(low), "…" if high is None else show(high))
    return f"{show(estimate.expected)} [{ends[0]}, {ends[1]}]"


def state_words(progress: RunProgress) -> str:
    """Return the state of a run or a waiting training, with what its scheduler says."""
    return str(progress.state) if progress.said is None else f"{progress.state} ({progress.said})"


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


def alert_words(alert: Alert) -> str:
    """Return an alert in one line: subject, kind, sentence, cost and way out."""
    kind = alert.kind.replace("_", " ")
    return (
        f"{kind}: {alert.subject_kind} {alert.subject}: {alert.sentence}; {rate(alert.usd_per_hour)} → {alert.way_out}"
    )


def spend_words(spend: Spend) -> str:
    """Return the spend of a cohort or a study, its forecast and its budget in one line."""
    made = f"{spend.runs} run{'' if spend.runs == 1 else 's'}, {spend.live_runs} live"
    if spend.missing is not None:
        made += f", {spend.missing} of {spend.planned} trainings still to start"
    parts = [made, f"{usd(spend.spent_usd)} and {hours(spend.spent_h)} spent"]
    if spend.evaluation_usd is not None:
        parts.append(f"{usd(spend.evaluation_usd)} for separate evaluations")
    if spend.live_runs:
        parts.append(f"now {rate(spend.usd_per_hour)}")
    if (forecast := forecast_words(spend)) and (spend.live_runs or spend.missing):
        parts.append(f"forecast {forecast}")
    if spend.unknown is not None:
        parts.append(f"no forecast of the cost: {spend.unknown}")
    if budget := budget_words(spend):
        parts.append(f"budget {budget}")
    return f"{spend.kind} {spend.name}: {' · '.join(parts)}"


def forecast_words(spend: Spend) -> str:
    """Return the forecasts of a spend, in money and in time; empty without one."""
    found = [estimate_usd(spend.forecast_usd)] if spend.forecast_usd is not None else []
    found += [estimate_hours(spend.forecast_h)] if spend.forecast_h is not None else []
    return " and ".join(found)


def budget_words(spend: Spend) -> str:
    """Return the budgets of a study, of money and of time; empty without one."""
    found = [usd(spend.budget_usd)] if spend.budget_usd is not None else []
    found += [hours(spend.budget_h)] if spend.budget_h is not None else []
    return " and ".join(found)


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
