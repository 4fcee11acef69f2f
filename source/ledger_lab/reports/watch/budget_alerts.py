"""Alerts about studies that cost more than their budget."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ledger_lab.reports.watch.model import Alert, AlertKind, Estimate, Severity, Spend
from ledger_lab.units import usd


@dataclass(frozen=True)
class _Amount:
    """A budget, and what is known about the spend."""

    key: str
    """Key of the study file."""
    budget: float
    spent: float | None
    forecast: Estimate | None
    show: Callable[[float], str]


def budget_alerts(study: Spend) -> Iterator[Alert]:
    """Yield the alerts about a study: at most one for its budget of money, and one for that of time.

    Args:
        study: The study.
    """
    amounts = []
    if study.budget_usd is not None:
        amounts.append(_Amount("budget_usd", study.budget_usd, study.spent_usd, study.forecast_usd, usd))
    if study.budget_h is not None:
        amounts.append(_Amount("budget_h", study.budget_h, study.spent_h, study.forecast_h, _hours))
    going_on = bool(study.live_runs or study.missing)
    for amount in amounts:
        if going_on and (found := _judge(amount)) is not None:
            kind, severity, words = found
            yield Alert(
                kind=kind,
                severity=severity,
                subject_kind="study",
                subject=study.name,
                since=None,
                usd_per_hour=study.usd_per_hour,
                sentence=f"{words}; {study.live_runs} live, {study.missing} still to start",
                way_out=f"end it (study.py {shlex.quote(study.name)} --on CLUSTER --cancel, or Ctrl-C), plan fewer "
                f"seeds, or raise {amount.key} in its file",
            )


def _judge(amount: _Amount) -> tuple[AlertKind, Severity, str] | None:
    """Compare a budget with the spend and its forecast."""
    show, budget, spent, forecast = amount.show, amount.budget, amount.spent, amount.forecast
    if spent is not None and spent > budget:
        return AlertKind.OVER_BUDGET, Severity.CRITICAL, f"{show(spent)} are spent of a budget of {show(budget)}"
    if forecast is None:
        return None
    of = f"of a budget of {show(budget)}"
    if forecast.expected is None:
        if forecast.low is not None and forecast.low > budget:
            return AlertKind.OVER_BUDGET, Severity.CRITICAL, f"it will take at least {show(forecast.low)} {of}"
        if forecast.high is not None and forecast.high > budget:
            words = f"it may take up to {show(forecast.high)} {of}; the ledger has too few runs to tell more"
            return AlertKind.BUDGET_AT_RISK, Severity.NOTICE, words
        return None
    expected = f"it will probably take {show(forecast.expected)}"
    if forecast.low is None or forecast.high is None:
        if forecast.expected <= budget:
            return None
        return AlertKind.BUDGET_AT_RISK, Severity.WARNING, f"{expected} {of}; there are too few runs for an interval"
    within = f"{expected} [{show(forecast.low)}, {show(forecast.high)}] {of}"
    if forecast.low > budget:
        return AlertKind.OVER_BUDGET, Severity.CRITICAL, f"{within}: the remaining trainings can't finish in it"
    if forecast.high > budget:
        return AlertKind.BUDGET_AT_RISK, Severity.WARNING, f"{within}: it may not be enough"
    return None


def _hours(amount: float) -> str:
    """Return hours."""
    return f"{amount:.1f} h"
