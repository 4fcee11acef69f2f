"""Searches as texts and tables for the terminal, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from ledger_lab.studies.search.population import by_generation, lineage, lineage_s, ranked_members, score
from ledger_lab.studies.search.result import SearchResult
from ledger_lab.studies.search.situation import Situation
from ledger_lab.studies.search.trials import (
    STOCK,
    Outcome,
    SeedRun,
    Trial,
    generation_of,
    member_of,
    trial_words,
    values_words,
)
from ledger_lab.units import MISSING, counted, duration, percent, usd

_MOST_SHOWN = 12
"""Number of the best trials in the table without --all. The stock recipe and those under way are there in any case."""
IMPORTANCE_TITLES = ("parameter", "importance", "in 95 % of resamples")
"""Titles of the columns of the table of importances."""
_MEMBER_TITLES = ("generation", "member", "policy of", "held-out success", "time", "cost", "values")


def search_lines(result: SearchResult) -> list[str]:
    """Return what a search is about, what it has spent, and what is the best so far, one line each.

    For a population, the last lines are the lineage of the best member.

    Args:
        result: The search.
    """
    declaration, best = result.declaration, result.best
    lines = [
        f"search {declaration.name} ({declaration.digest[:8]}): {declaration.file.about or declaration.name} · "
        f"{declaration.file.task} · least {declaration.file.objective}",
        spend_line(result.situation),
    ]
    if best is None:
        return lines
    name = trial_words(declaration, best.number)
    if declaration.is_race:
        return [*lines, f"best so far: {name}, {_amount(result, result.situation.mean(best))} per seed in the race"]
    time = duration(lineage_s(result.trials, best))
    how = "reached the target" if best.reached else f"{percent(score(best))} held-out success"
    stages = [
        f"generation {generation_of(declaration, trial.number)}: member {member_of(declaration, trial.number)}"
        f"{_copied(result, trial)}: {values_words(trial.values)}"
        for trial in lineage(result.trials, best)
    ]
    return [*lines, f"best so far: {name}, {how} after {time} in its lineage:", *stages]


def spend_line(situation: Situation) -> str:
    """Return how many trainings a search has made, and what they have spent of the budget.

    Args:
        situation: How the search stands.
    """
    declaration = situation.declaration
    started = [trial for trial in situation.trials if trial.runs]
    made = f"race: {counted(len(situation.runs), 'training')} of {counted(len(started), 'trial')}"
    if not declaration.is_race:
        generations = counted(len(by_generation(declaration, started)), "generation")
        trained = counted(len(situation.runs), "training")
        made = f"population: {trained} in {generations} of {declaration.members} members"
    if declaration.unit == "USD":
        return f"{made}, {usd(situation.spent)} of {usd(declaration.budget)}"
    return f"{made}, {situation.spent:.2f} h of {declaration.budget:g} h"


def trial_titles(result: SearchResult) -> list[str]:
    """Return the titles of the columns of :func:`trial_rows`."""
    if not result.declaration.is_race:
        return [*_MEMBER_TITLES]
    return ["trial", *(f"seed {seed}" for seed in result.declaration.file.search_seeds), "mean", "cost", "values"]


def trial_rows(result: SearchResult, *, every: bool = False, caps: bool = False) -> list[list[str]]:
    """Return the rows of the table of trials, best first; for a population, those of its members.

    Args:
        result: The search.
        every: Whether to return all trials, and not only the best ones and those under way, or the newest generations.
        caps: Whether the time of a training is followed by its cap.
    """
    if not result.declaration.is_race:
        return [_member_row(result, trial) for trial in _shown(result, every=every)]
    rows = []
    for trial in _shown(result, every=every):
        runs = {run.seed: run for run in trial.runs}
        seeds = result.declaration.file.search_seeds
        times = [_run_cell(runs[seed], caps=caps) if seed in runs else "" for seed in seeds]
        is_whole = result.situation.charges(trial).keys() == {*seeds}
        mean = result.situation.mean(trial) if is_whole else None
        amount = MISSING if mean is None else _amount(result, mean)
        rows.append([str(trial.number), *times, amount, _cost(trial), values_words(trial.values) or "the stock recipe"])
    return rows


def trials_table(result: SearchResult, *, every: bool = False) -> Table:
    """Return the trials as a table for the terminal, best first.

    Args:
        result: The search.
        every: As for :func:`trial_rows`.
    """
    *narrow, last = trial_titles(result)
    return _table([*(("right", title) for title in narrow), ("left", last)], trial_rows(result, every=every))


def trial_notes(result: SearchResult, *, every: bool = False) -> list[str]:
    """Return notes on the table of trials, one line each.

    Args:
        result: The search.
        every: Whether the table shows all trials.
    """
    left_out = len(_shown(result, every=True)) - len(_shown(result, every=every))
    if result.declaration.is_race:
        note = (
            "seeds: wall-clock time of the training; after >, it was ended without the target · mean: what a seed "
            "counts as in the race · cost: of all trainings of the trial"
        )
    else:
        note = (
            "policy of: member whose last policy the stage began with · held-out success: of the last policy on the "
            "panel · time, cost: of the stage"
        )
    what = "trial" if result.declaration.is_race else "stage"
    return [note, *([f"{counted(left_out, f'more {what}')}: --all shows all"] if left_out else [])]


def importance_table(result: SearchResult) -> Table:
    """Return the importance of the parameters as a table for the terminal."""
    first, *others = IMPORTANCE_TITLES
    return _table([("left", first), *(("right", title) for title in others)], importance_rows(result))


def importance_rows(result: SearchResult) -> list[list[str]]:
    """Return the rows of the table of importances, with the columns of :data:`IMPORTANCE_TITLES`."""
    return [
        [each.parameter, percent(each.share, 0), f"{percent(each.low, 0)} to {percent(each.high, 0)}"]
        for each in result.importances
    ]


def search_json(result: SearchResult) -> dict[str, Any]:
    """Return a search as JSON values.

    Args:
        result: The search.
    """
    declaration = result.declaration
    file = declaration.file
    return {
        "search": declaration.name,
        "digest": declaration.digest,
        "task": file.task,
        "objective": file.objective,
        "strategy": file.strategy,
        "budget_h": file.budget_h,
        "budget_usd": file.budget_usd,
        "search_seeds": list(file.search_seeds),
        "sealed_seeds": list(file.sealed_seeds),
        "spent": result.situation.spent,
        "best": None if result.best is None else result.best.number,
        "finalists": [trial.number for trial in result.finalists],
        "importances": [asdict(each) for each in result.importances],
        "steps": [asdict(each) for each in result.steps] if declaration.is_race else [],
        "trials": [
            {
                "trial": trial.number,
                **_place_in_population(result, trial),
                "values": dict(trial.values),
                "charges": result.situation.charges(trial),
                "runs": [asdict(run) for run in trial.runs],
            }
            for trial in result.trials
        ],
    }


def _place_in_population(result: SearchResult, trial: Trial) -> dict[str, Any]:
    """Return where a trial is in a population, and the trial whose policy it began with; nothing for a race."""
    if result.declaration.is_race:
        return {}
    generation, member = (of(result.declaration, trial.number) for of in (generation_of, member_of))
    return {"generation": generation, "member": member, "parent": trial.parent}


def _shown(result: SearchResult, *, every: bool) -> Sequence[Trial]:
    """Return the trials of the table: in a race, those that have run more seeds first, and then the best ones.

    In a population, they are the members of each generation, newest generation and best member first.
    """
    situation = result.situation
    if not result.declaration.is_race:
        generations = [*by_generation(result.declaration, result.trials).values()][::-1]
        shown = generations if every else generations[:2]
        return [trial for generation in shown for trial, _ in ranked_members(result.declaration, generation)]

    def key(trial: Trial) -> tuple[int, int, float, int]:
        own = situation.charges(trial)
        missed = len(trial.runs) - trial.reached
        return (-len(own) if own else 1, missed, sum(own.values()) / max(1, len(own)), trial.number)

    ranked = sorted(result.trials, key=key)
    kept = {trial.number for trial in ranked[:_MOST_SHOWN]} | {STOCK}
    return [trial for trial in ranked if every or trial.number in kept or not trial.has_ended]


def _member_row(result: SearchResult, trial: Trial) -> list[str]:
    """Return the row of a stage of a population."""
    declaration, run = result.declaration, trial.runs[0]
    success = "reached the target" if trial.reached else MISSING if score(trial) is None else percent(score(trial))
    return [
        str(generation_of(declaration, trial.number)),
        str(member_of(declaration, trial.number)),
        MISSING if trial.parent is None else str(member_of(declaration, trial.parent)),
        success if run.outcome in (Outcome.REACHED, Outcome.MISSED) else run.outcome.value,
        duration(run.wall_s),
        _cost(trial),
        values_words(trial.values),
    ]


def _copied(result: SearchResult, trial: Trial) -> str:
    """Say whose policy a stage began with, if it is that of another member."""
    if trial.parent is None:
        return ""
    parent, own = (member_of(result.declaration, number) for number in (trial.parent, trial.number))
    return "" if parent == own else f", a copy of member {parent}"


def _run_cell(run: SeedRun, *, caps: bool) -> str:
    """Return the cell of a training: its time, or why it has none; and its cap, if the time is not the cap."""
    if run.outcome is Outcome.CAPPED:
        return f"> {duration(run.wall_s)}"
    cap = f" (cap {duration(run.cap_s)})" if caps and run.cap_s is not None else ""
    return f"{duration(run.wall_s) if run.outcome is Outcome.REACHED else run.outcome.value}{cap}"


def _amount(result: SearchResult, charge: float) -> str:
    """Return a charge in the unit of the objective."""
    return duration(charge) if result.declaration.file.objective == "time" else usd(charge)


def _cost(trial: Trial) -> str:
    """Return the cost of all trainings of a trial."""
    paid = [run.usd for run in trial.runs if run.usd is not None]
    return usd(math.fsum(paid)) if paid and len(paid) == len(trial.runs) else MISSING


def _table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table for the terminal; each column has a side and a title."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for side, title in columns:
        table.add_column(title, justify="right" if side == "right" else "left", no_wrap=side == "right")
    for row in rows:
        table.add_row(*row)
    return table
