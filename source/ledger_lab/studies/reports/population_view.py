"""Populations as texts and table rows: generations, lineages and spend."""

from __future__ import annotations

import math

from ledger_lab.studies.reports.search_words import trial_words, values_words
from ledger_lab.studies.search.population import by_generation, lineage, lineage_s, ranked_members, score
from ledger_lab.studies.search.result import SearchResult
from ledger_lab.studies.search.trials import Outcome, Trial, generation_of, member_of
from ledger_lab.units import MISSING, duration, percent, usd

TITLES = ("generation", "member", "policy of", "held-out success", "time", "cost", "values")
"""Titles of the columns of :func:`member_rows`."""
_MARKS = {
    Outcome.CAPPED: "capped",
    Outcome.CRASHED: "crashed",
    Outcome.HUNG: "hung",
    Outcome.INTERRUPTED: "interrupted",
    Outcome.RUNNING: "running",
}
"""What the table shows for a stage that was not trained to its end."""


def members_shown(result: SearchResult, *, every: bool) -> list[Trial]:
    """Return the trials of the table: those of each generation, newest generation and best member first.

    Args:
        result: The search.
        every: Whether to return all generations, and not only the two newest ones.
    """
    generations = [*by_generation(result.declaration, result.trials).values()][::-1]
    shown = generations if every else generations[:2]
    return [trial for generation in shown for trial, _ in ranked_members(result.declaration, generation)]


def member_rows(result: SearchResult, *, every: bool) -> list[list[str]]:
    """Return the rows of the table of members.

    Args:
        result: The search.
        every: As for :func:`members_shown`.
    """
    return [_row(result, trial) for trial in members_shown(result, every=every)]


def best_words(result: SearchResult, best: Trial) -> str:
    """Say which member is the best so far, and how good its policy is.

    Args:
        result: The search.
        best: The trial of its last stage.
    """
    name = trial_words(result.declaration, best.number)
    success = score(best)
    time = duration(lineage_s(result.trials, best))
    if any(run.outcome is Outcome.REACHED for run in best.raced().values()):
        return f"{name} reached the target, after {time} in its lineage:"
    return f"{name}, {percent(success)} held-out success after {time} in its lineage:"


def lineage_lines(result: SearchResult, best: Trial) -> list[str]:
    """Return the stages that led to the policy of a member, one line each.

    Args:
        result: The search.
        best: The trial of the last stage.
    """
    return [
        f"generation {_generation(result, trial)}: member {member_of(result.declaration, trial.number)}"
        f"{_copied(result, trial)}: {values_words(trial.values)}"
        for trial in lineage(result.trials, best)
    ]


def _row(result: SearchResult, trial: Trial) -> list[str]:
    """Return the row of a trial."""
    runs = [*trial.raced().values()]
    run = runs[0] if runs else None
    paid = [each.usd for each in runs if each.usd is not None]
    return [
        str(_generation(result, trial)),
        str(member_of(result.declaration, trial.number)),
        MISSING if trial.parent is None else str(member_of(result.declaration, trial.parent)),
        MISSING if run is None else _MARKS.get(run.outcome) or _success_words(trial),
        MISSING if run is None else duration(run.wall_s),
        usd(math.fsum(paid)) if paid else MISSING,
        values_words(trial.values),
    ]


def _success_words(trial: Trial) -> str:
    """Return the success of a trial's last policy, or that it reached the target."""
    if any(run.outcome is Outcome.REACHED for run in trial.raced().values()):
        return "reached the target"
    return MISSING if score(trial) is None else percent(score(trial))


def _generation(result: SearchResult, trial: Trial) -> int:
    """Return the generation of a trial."""
    return generation_of(result.declaration, trial.number)


def _copied(result: SearchResult, trial: Trial) -> str:
    """Say whose policy a trial began with, if it is that of another member."""
    if trial.parent is None:
        return ""
    parent = member_of(result.declaration, trial.parent)
    return "" if parent == member_of(result.declaration, trial.number) else f", a copy of member {parent}"
