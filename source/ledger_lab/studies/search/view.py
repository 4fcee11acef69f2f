"""What a search has found so far, as texts and tables for the terminal, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.table import Table

from ledger_lab.studies.search.population import by_generation, lineage, lineage_s, ranked_members, reached, score
from ledger_lab.studies.search.race import best_on_all_seeds, incumbent
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

FEWEST_TRIALS: Final = 20
"""Smallest number of ended trials from which importance is computed."""
_MOST_FINALISTS: Final = 3
_MOST_SHOWN = 12
"""Number of the best trials in the table without --all. The stock recipe and those under way are there in any case."""
_RACE_NOTE = (
    "seeds: wall-clock time of the training; after >, it was ended without the target · mean: what a seed counts as in "
    "the race · cost: of all trainings of the trial"
)
_POPULATION_NOTE = (
    "policy of: member whose last policy the stage began with · held-out success: of the last policy on the panel · "
    "time, cost: of the stage"
)


def best_trial(situation: Situation) -> Trial | None:
    """Return the best trial that has run all search seeds; ``None`` before there is one.

    In a population, it is the best member of the newest generation that has ended, or that of the target.

    Args:
        situation: How the search stands.
    """
    declaration, trials = situation.declaration, situation.started
    if declaration.is_race:
        return incumbent(situation)
    if found := reached(trials):
        return found[0]
    generations = by_generation(declaration, trials).values()
    ended = [each for each in generations if len(each) == declaration.members and all(m.has_ended for m in each)]
    if not ended or all(score(trial) is None for trial in ended[-1]):
        return None
    return ranked_members(declaration, ended[-1])[0]


def finalists(situation: Situation) -> list[Trial]:
    """Return the trials that are compared with the stock recipe on the sealed seeds, best first.

    In a population, they are members that reached the target with values that never changed along their lineage: a
    schedule is no recipe that a study could train from random networks.

    Args:
        situation: How the search stands.
    """
    if situation.declaration.is_race:
        return best_on_all_seeds(situation)[:_MOST_FINALISTS]
    trials = situation.started
    found = (trial for trial in reached(trials) if all(each.values == trial.values for each in lineage(trials, trial)))
    return [*found][:_MOST_FINALISTS]


def importances(situation: Situation) -> dict[str, float]:
    """Return the share of each parameter in what decides whether a trial is among the best tenth, the largest first.

    Empty with too few trials, or for a population.

    Args:
        situation: How the search stands.
    """
    positions = situation.positions() if situation.declaration.is_race else {}
    if len(positions) < FEWEST_TRIALS:
        return {}
    return dict(sorted(situation.store.importance(positions).items(), key=lambda each: (-each[1], each[0])))


def search_lines(situation: Situation) -> list[str]:
    """Return what a search is about, what it has spent, and what is the best so far, one line each.

    For a population, the last lines are the lineage of the best member.

    Args:
        situation: How the search stands.
    """
    declaration, best = situation.declaration, best_trial(situation)
    lines = [
        f"search {declaration.name} ({declaration.digest[:8]}): {declaration.about or declaration.name} · "
        f"{declaration.task} · least {declaration.objective}",
        spend_line(situation),
    ]
    if best is None:
        return lines
    name = trial_words(declaration, best.number)
    if declaration.is_race:
        return [*lines, f"best so far: {name}, {_amount(situation, situation.mean(best))} per seed in the race"]
    how = "reached the target" if best.reached else f"{percent(score(best))} held-out success"
    lines.append(f"best so far: {name}, {how} after {duration(lineage_s(situation.started, best))} in its lineage:")
    for trial in lineage(situation.started, best):
        member, parent = (
            None if each is None else member_of(declaration, each) for each in (trial.number, trial.parent)
        )
        copied = "" if parent in (None, member) else f", a copy of member {parent}"
        generation = generation_of(declaration, trial.number)
        lines.append(f"generation {generation}: member {member}{copied}: {values_words(trial.values)}")
    return lines


def spend_line(situation: Situation) -> str:
    """Return how many trainings a search has made, and what they have spent of the budget.

    Args:
        situation: How the search stands.
    """
    declaration = situation.declaration
    started = situation.started
    trained = counted(len(situation.runs), "training")
    made = f"race: {trained} of {counted(len(started), 'trial')}"
    if not declaration.is_race:
        generations = counted(len(by_generation(declaration, started)), "generation")
        made = f"population: {trained} in {generations} of {declaration.members} members"
    if declaration.unit == "USD":
        return f"{made}, {usd(situation.spent)} of {usd(declaration.budget)}"
    return f"{made}, {situation.spent:.2f} h of {declaration.budget:g} h"


def trials_table(situation: Situation, *, every: bool = False) -> tuple[Table, str]:
    """Return the trials as a table, best first, and what its columns mean; of a population, its members.

    Args:
        situation: How the search stands.
        every: Whether to show all trials, and not only the best ones and those under way, or the newest generations.
    """
    is_race, shown = situation.declaration.is_race, _shown(situation, every=every)
    if is_race:
        seeds = [f"seed {seed}" for seed in situation.declaration.search_seeds]
        titles, note = ["trial", *seeds, "mean", "cost"], _RACE_NOTE
        rows = [_race_row(situation, each) for each in shown]
    else:
        titles = ["generation", "member", "policy of", "held-out success", "time", "cost"]
        rows, note = [_member_row(situation, each) for each in shown], _POPULATION_NOTE
    if left_out := len(_shown(situation, every=True)) - len(shown):
        note = f"{note}\n{counted(left_out, 'more trial' if is_race else 'more stage')}: --all shows all"
    return _table(titles, rows, last="values"), note


def importance_table(found: Mapping[str, float]) -> Table:
    """Return the importance of the parameters of a race as a table."""
    rows = [[percent(share, 0), name] for name, share in found.items()]
    return _table(["importance"], rows, last="parameter")


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, last: str) -> Table:
    """Return a table whose columns but the last one are aligned at the right."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column(last)
    for row in rows:
        table.add_row(*row)
    return table


def _shown(situation: Situation, *, every: bool) -> Sequence[Trial]:
    """Return the trials of the table: in a race, those that have run more seeds first, and then the best ones.

    In a population, they are the members of each generation, newest generation and best member first.
    """
    if not situation.declaration.is_race:
        generations = [*by_generation(situation.declaration, situation.started).values()][::-1]
        shown = generations if every else generations[:2]
        return [trial for generation in shown for trial in ranked_members(situation.declaration, generation)]

    def key(trial: Trial) -> tuple[int, int, float, int]:
        own = situation.charges(trial)
        missed = len(trial.runs) - trial.reached
        return (-len(own) if own else 1, missed, sum(own.values()) / max(1, len(own)), trial.number)

    ranked = sorted(situation.started, key=key)
    kept = {trial.number for trial in ranked[:_MOST_SHOWN]} | {STOCK}
    return [trial for trial in ranked if every or trial.number in kept or not trial.has_ended]


def _race_row(situation: Situation, trial: Trial) -> list[str]:
    """Return the row of a trial of a race."""
    runs, seeds = {run.seed: run for run in trial.runs}, situation.declaration.search_seeds
    is_whole = situation.charges(trial).keys() == {*seeds}
    mean = _amount(situation, situation.mean(trial)) if is_whole else MISSING
    times = [_time(runs[seed]) if seed in runs else "" for seed in seeds]
    return [str(trial.number), *times, mean, _cost(trial), values_words(trial.values) or "the stock recipe"]


def _member_row(situation: Situation, trial: Trial) -> list[str]:
    """Return the row of a stage of a population."""
    declaration, run = situation.declaration, trial.runs[0]
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


def _time(run: SeedRun) -> str:
    """Return the time of a training, or why it has none."""
    if run.outcome is Outcome.CAPPED:
        return f"> {duration(run.wall_s)}"
    return duration(run.wall_s) if run.outcome is Outcome.REACHED else run.outcome.value


def _amount(situation: Situation, charge: float) -> str:
    """Return a charge in the unit of the objective."""
    return duration(charge) if situation.declaration.objective == "time" else usd(charge)


def _cost(trial: Trial) -> str:
    """Return the cost of all trainings of a trial."""
    paid = [run.usd for run in trial.runs if run.usd is not None]
    return usd(math.fsum(paid)) if paid and len(paid) == len(trial.runs) else MISSING


def search_json(situation: Situation) -> dict[str, Any]:
    """Return a search as JSON values.

    Args:
        situation: How the search stands.
    """
    declaration, best = situation.declaration, best_trial(situation)
    return {
        "search": declaration.name,
        "digest": declaration.digest,
        **{
            name: getattr(declaration, name)
            for name in ("task", "objective", "strategy", "budget_h", "budget_usd", "search_seeds", "sealed_seeds")
        },
        "spent": situation.spent,
        "best": None if best is None else best.number,
        "finalists": [trial.number for trial in finalists(situation)],
        "importances": importances(situation),
        "trials": [
            {
                "trial": trial.number,
                **_place_in_population(situation, trial),
                "values": dict(trial.values),
                "charges": situation.charges(trial),
                "runs": [asdict(run) for run in trial.runs],
            }
            for trial in situation.started
        ],
    }


def _place_in_population(situation: Situation, trial: Trial) -> dict[str, Any]:
    """Return where a trial is in a population, and the trial whose policy it began with; nothing for a race."""
    if situation.declaration.is_race:
        return {}
    generation, member = (of(situation.declaration, trial.number) for of in (generation_of, member_of))
    return {"generation": generation, "member": member, "parent": trial.parent}
