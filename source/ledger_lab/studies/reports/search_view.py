"""Searches as texts and tables for the terminal, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from ledger_lab.studies.reports.population_view import TITLES, best_words, lineage_lines, member_rows, members_shown
from ledger_lab.studies.reports.search_words import trial_words, values_words
from ledger_lab.studies.search.charges import unused_controls
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.ending import Comparison
from ledger_lab.studies.search.population import by_generation
from ledger_lab.studies.search.prediction import MOST_WRONG, Replay, ScoredTraining, is_behind, replay
from ledger_lab.studies.search.result import SearchResult
from ledger_lab.studies.search.trials import STOCK, Outcome, SeedRun, Trial, generation_of, member_of
from ledger_lab.units import MISSING, counted, duration, percent, usd

_MOST_SHOWN = 12
"""Number of the best trials in the table without --all. The stock recipe and those under way are there in any case."""
IMPORTANCE_TITLES = ("parameter", "importance", "in 95 % of resamples")
"""Titles of the columns of the table of importances."""
_MARKS = {
    Outcome.MISSED: "missed",
    Outcome.CRASHED: "crashed",
    Outcome.HUNG: "hung",
    Outcome.INTERRUPTED: "interrupted",
    Outcome.RUNNING: "running",
}
"""What the table shows for a training without the target that was not capped."""


def search_lines(result: SearchResult) -> list[str]:
    """Return what a search is about, what it has spent, and what is the best so far, one line each.

    For a population, the last lines are the lineage of the best member.

    Args:
        result: The search.
    """
    declaration = result.declaration
    lines = [
        f"search {declaration.name} ({declaration.digest[:8]}): {declaration.about} · {declaration.task} · "
        f"least {declaration.objective}",
        spend_line(result),
    ]
    if result.best is None:
        return lines
    if declaration.population is not None:
        return [*lines, f"best so far: {best_words(result, result.best)}", *lineage_lines(result, result.best)]
    mean = result.charges.mean(result.best.number)
    name = trial_words(declaration, result.best.number)
    return [*lines, f"best so far: {name}, {_amount(declaration, mean)} per seed in the race"]


def spend_line(result: SearchResult) -> str:
    """Return how many trainings a search has made before the sealed seeds, and what they have spent of the budget.

    Args:
        result: The search.
    """
    declaration = result.declaration
    runs = [run for trial in result.trials for run in trial.runs]
    raced, sealed = sum(not run.sealed for run in runs), sum(run.sealed for run in runs)
    made = f"race: {counted(raced, 'training')} of {counted(len(result.trials), 'trial')}"
    if declaration.population is not None:
        generations = counted(len(by_generation(declaration, result.trials)), "generation")
        made = f"population: {counted(raced, 'training')} in {generations} of {declaration.members} members"
    of_end = f"; sealed seeds: {counted(sealed, 'training')}" if sealed else ""
    return f"{made}, {_spend_words(result)}{of_end}"


def trial_titles(result: SearchResult) -> list[str]:
    """Return the titles of the columns of :func:`trial_rows`."""
    if result.declaration.population is not None:
        return [*TITLES]
    return ["trial", *(f"seed {seed}" for seed in result.declaration.search_seeds), "mean", "cost", "values"]


def trial_rows(result: SearchResult, *, every: bool = False, caps: bool = False) -> list[list[str]]:
    """Return the rows of the table of trials, best first; for a population, those of its members.

    Args:
        result: The search.
        every: Whether to return all trials, and not only the best ones and those under way, or the newest generations.
        caps: Whether the time of a training is followed by its cap.
    """
    declaration, rows = result.declaration, []
    if declaration.population is not None:
        return member_rows(result, every=every)
    for trial in _shown(result, every=every):
        raced, own = trial.raced(), result.charges.by_trial[trial.number]
        times = [_run_cell(raced[seed], caps=caps) if seed in raced else "" for seed in declaration.search_seeds]
        is_whole = own.keys() == set(declaration.search_seeds)
        mean = _amount(declaration, result.charges.mean(trial.number)) if is_whole else MISSING
        paid = [run.usd for run in trial.runs if run.usd is not None]
        cost = usd(math.fsum(paid)) if paid and len(paid) == len(trial.runs) else MISSING
        rows.append([str(trial.number), *times, mean, cost, values_words(trial.values) or "the stock recipe"])
    return rows


def trials_table(result: SearchResult, *, every: bool = False) -> Table:
    """Return the trials as a table for the terminal, best first.

    Args:
        result: The search.
        every: As for :func:`trial_rows`.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    *narrow, last = trial_titles(result)
    for title in narrow:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column(last)
    for row in trial_rows(result, every=every):
        table.add_row(*row)
    return table


def trial_notes(result: SearchResult, *, every: bool = False) -> list[str]:
    """Return notes on the table of trials, one line each.

    Args:
        result: The search.
        every: Whether the table shows all trials.
    """
    if result.declaration.population is not None:
        left_out = sum(not trial.is_stock for trial in result.trials) - len(members_shown(result, every=every))
        return [
            "policy of: member whose last policy the stage began with · held-out success: of the last policy on the "
            "panel · time, cost: of the stage",
            *([f"{counted(left_out, 'more stage')}: --all shows all"] if left_out else []),
        ]
    left_out = len(result.trials) - len(_shown(result, every=every))
    notes = [
        "seeds: wall-clock time of the training; after >, it was ended without the target · mean: what a seed counts "
        "as in the race, corrected for the drift of the machine · cost: of all trainings of the trial"
    ]
    if unused := unused_controls(result.trials):
        notes.append(
            f"{counted(unused, 'control')} ran on another machine than the training before, and did not show how the "
            "speed of the machine has changed"
        )
    return [*notes, f"{counted(left_out, 'more trial')}: --all shows all"] if left_out else notes


def importance_table(result: SearchResult) -> Table:
    """Return the importance of the parameters as a table for the terminal.

    Args:
        result: The search.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    first, *narrow = IMPORTANCE_TITLES
    table.add_column(first)
    for title in narrow:
        table.add_column(title, justify="right", no_wrap=True)
    for row in importance_rows(result):
        table.add_row(*row)
    return table


def importance_rows(result: SearchResult) -> list[list[str]]:
    """Return the rows of the table of importances, with the columns of :data:`IMPORTANCE_TITLES`.

    Args:
        result: The search.
    """
    return [
        [each.parameter, percent(each.share, 0), f"{percent(each.low, 0)} to {percent(each.high, 0)}"]
        for each in result.importances
    ]


def past_predictions(result: SearchResult, trainings: Sequence[ScoredTraining]) -> Replay:
    """Return what predictions would have done to the ended trainings of a race.

    Args:
        result: The search.
        trainings: The trainings of its race, with their scores.
    """
    return replay(_ended(result, trainings))


def prediction_lines(result: SearchResult, trainings: Sequence[ScoredTraining]) -> list[str]:
    """Return how predictions would have done so far, and which trainings under way are behind, one line each.

    Args:
        result: The search.
        trainings: The trainings of its race, with their scores.
    """
    over = _ended(result, trainings)
    past = replay(over)
    if not past.trainings:
        return []
    lines = [
        f"early prediction: would have ended {past.ended} of {past.trainings} trainings, and saved "
        f"{duration(past.saved_s)} of {duration(past.wall_s)}; {past.wrong} of the {past.ended} reached the target"
        + ("" if past.is_trusted else f" (more than {percent(MOST_WRONG, 0)}: don't trust it)" if past.ended else "")
    ]
    others = [each for each in over if each.reached]
    going = [each for each in trainings if each not in over and each.scores]
    return lines + [
        f"trial {each.trial} seed {each.seed} is behind every training that reached the target"
        for each in going
        if is_behind(each, others, each.scores[-1][0])
    ]


def end_lines(result: SearchResult) -> list[str]:
    """Return how the finalists did on the sealed seeds, and when the search is repaid, one line each.

    Args:
        result: The search.
    """
    declaration, lines = result.declaration, []
    if not result.comparisons:
        return []
    seeds = len(declaration.sealed_seeds)
    lines.append(
        f"on {seeds} sealed seeds, {declaration.objective} per proven target ÷ that of the stock recipe, with "
        "intervals from resampled seeds, which hold for all finalists together in about 90 % of searches:"
    )
    lines += [f"  {trial_words(declaration, each.trial)}: {_ratio_words(each)}" for each in result.comparisons]
    winner = result.winner
    if winner is None:
        lines.append("no finalist is proven to be better than the stock recipe")
    worth = "" if winner is None else f"; {_worth_words(declaration, winner)}"
    lines.append(f"the whole search took {_amount(declaration, result.bill)}{worth}")
    return lines


def search_json(result: SearchResult, past: Replay | None) -> dict[str, Any]:
    """Return a search as JSON values.

    Args:
        result: The search.
        past: The result of :func:`past_predictions`; ``None`` for a population.
    """
    declaration = result.declaration
    return {
        "search": declaration.name,
        "digest": declaration.digest,
        "task": declaration.task,
        "objective": declaration.objective,
        "strategy": declaration.strategy,
        "population": None if declaration.population is None else asdict(declaration.population),
        "budget_h": declaration.budget_h,
        "budget_usd": declaration.budget_usd,
        "search_seeds": list(declaration.search_seeds),
        "sealed_seeds": list(declaration.sealed_seeds),
        "spent": result.spent,
        "bill": result.bill,
        "best": None if result.best is None else result.best.number,
        "finalists": list(result.finalists),
        "winner": None if result.winner is None else result.winner.trial,
        "comparisons": [_finite(asdict(each)) for each in result.comparisons],
        "importances": [asdict(each) for each in result.importances],
        "early_prediction": None if past is None else {**asdict(past), "is_trusted": past.is_trusted},
        "steps": [asdict(each) for each in result.steps],
        "chains": {str(number): [asdict(link) for link in result.chain(number)] for number in result.finalists},
        "trials": [
            {
                "trial": trial.number,
                **_place_in_population(declaration, trial),
                "values": dict(trial.values),
                "charges": result.charges.by_trial.get(trial.number, {}),
                "runs": [asdict(run) for run in trial.runs],
            }
            for trial in result.trials
        ],
    }


def _place_in_population(declaration: SearchDeclaration, trial: Trial) -> dict[str, Any]:
    """Return where a trial is in a population, and the trial whose policy it began with; nothing for a race."""
    if declaration.population is None or trial.is_stock:
        return {}
    generation, member = generation_of(declaration, trial.number), member_of(declaration, trial.number)
    return {"generation": generation, "member": member, "parent": trial.parent}


def _shown(result: SearchResult, *, every: bool) -> Sequence[Trial]:
    """Return the trials of the table: those that have run more seeds first, and then the best ones."""

    def key(trial: Trial) -> tuple[int, int, float, int]:
        own = result.charges.by_trial[trial.number]
        missed = sum(run.outcome is not Outcome.REACHED for run in trial.raced().values())
        return (-len(own) if own else 1, missed, sum(own.values()) / max(1, len(own)), trial.number)

    ranked = sorted(result.trials, key=key)
    if every:
        return ranked
    under_way = [trial for trial in ranked if any(not run.outcome.is_final for run in trial.runs)]
    kept = {trial.number for trial in (*ranked[:_MOST_SHOWN], *under_way)} | {STOCK}
    return [trial for trial in ranked if trial.number in kept]


def _ended(result: SearchResult, trainings: Sequence[ScoredTraining]) -> list[ScoredTraining]:
    """Return the trainings that have ended."""
    ended = {(trial.number, run.seed) for trial in result.trials for run in trial.runs if run.outcome.is_final}
    return [each for each in trainings if (each.trial, each.seed) in ended]


def _run_cell(run: SeedRun, *, caps: bool) -> str:
    """Return the cell of a training: its time, or why it has none; and its cap, if the time is not the cap."""
    if run.outcome is Outcome.CAPPED:
        return f"> {duration(run.wall_s)}"
    cap = f" (cap {duration(run.cap_s)})" if caps and run.cap_s is not None else ""
    return f"{duration(run.wall_s) if run.outcome is Outcome.REACHED else _MARKS[run.outcome]}{cap}"


def _spend_words(result: SearchResult) -> str:
    """Return what the race has spent of its budget."""
    declaration = result.declaration
    if declaration.budget_usd is not None:
        return f"{usd(result.spent)} of {usd(declaration.budget_usd)}"
    return f"{result.spent:.2f} h of {declaration.budget_h:g} h"


def _amount(declaration: SearchDeclaration, amount: float) -> str:
    """Return a charge or a bill in the unit of the objective."""
    return duration(amount) if declaration.objective == "time" else usd(amount)


def _ratio_words(comparison: Comparison) -> str:
    """Return a ratio with its interval."""
    high = "∞" if math.isinf(comparison.ratio_high) else f"{comparison.ratio_high:.2f}"
    ratio = MISSING if comparison.ratio is None or math.isinf(comparison.ratio) else f"{comparison.ratio:.2f}"
    at_most = "at most " if comparison.is_bound and ratio != MISSING else ""
    return f"{at_most}{ratio} [{comparison.ratio_low:.2f}, {high}], p = {comparison.p_value:.2g}"


def _worth_words(declaration: SearchDeclaration, winner: Comparison) -> str:
    """Return after how many trainings the search is repaid."""
    if winner.break_even is None:
        return "it is never repaid"
    low = MISSING if winner.break_even_low is None else f"{math.ceil(winner.break_even_low)}"
    high = "∞" if winner.break_even_high is None else f"{math.ceil(winner.break_even_high)}"
    what = "recipe" if declaration.population is None else "schedule"
    return (
        f"it is repaid after {'at most ' if winner.is_bound else ''}"
        f"{counted(math.ceil(winner.break_even), 'training')} [{low}, {high}] with the {what} of "
        f"{trial_words(declaration, winner.trial)}"
    )


def _finite(content: dict[str, Any]) -> dict[str, Any]:
    """Return numbers as JSON can have them: ``None`` for what is infinite."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in content.items()
    }
