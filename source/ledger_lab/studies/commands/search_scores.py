"""The held-out scores of the trainings of a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ledger_lab.ledger import Run
from ledger_lab.panels import VerdictRule
from ledger_lab.panels.carried import left_budget
from ledger_lab.reports import summarize_run
from ledger_lab.reports.clock import attempt_starts_s
from ledger_lab.studies.search.prediction import ScoredTraining
from ledger_lab.studies.search.trials import Outcome, Place, SearchTraining

if TYPE_CHECKING:
    from ledger_lab.studies.commands.search_runs import SearchRuns


def last_success(run: Run) -> float | None:
    """Return the success rate of the last policy of a run on its panel.

    Args:
        run: The run.

    Returns:
        The rate; ``None`` if the policy has no valid score, or no other run can begin with it, because the error budget
        that the run has left is too small to prove its target.
    """
    saved, last = run.checkpoints, None
    for row in run.results:
        if row.purpose == "screening" and saved and row.checkpoint_sha256 == saved[-1].sha256:
            last = None if row.invalid is not None else row
    if last is None:
        return None
    try:
        rule = VerdictRule(run.declared.target_success, left_budget(run).budget)
    except ValueError:  # a newer version of LedgerLab has judged it
        return None
    return last.outcomes.successes / last.outcomes.episodes if rule.is_decidable(last.outcomes.episodes) else None


def last_return(run: Run) -> float | None:
    """Return the mean return of the training episodes at the end of a run; ``None`` if unknown.

    Args:
        run: The run.
    """
    figures = (window.figures.get("mean_return") for _, window in reversed(run.windows))
    return next((each for each in figures if each is not None), None)


def scored_trainings(runs: SearchRuns) -> list[ScoredTraining]:
    """Return the trainings of the race with their scores. This reads all scores of their runs.

    Args:
        runs: The trainings of a search.
    """
    found = []
    for trial in runs.trials:
        for run in trial.raced().values():
            own = runs.runs.get(SearchTraining(Place(trial.number), run.seed), [])
            found.append(
                ScoredTraining(
                    trial=trial.number,
                    seed=run.seed,
                    started_s=run.started_s,
                    wall_s=run.wall_s,
                    reached=run.outcome is Outcome.REACHED,
                    scores=_scores(own),
                )
            )
    return sorted(found, key=lambda each: (each.started_s, each.trial, each.seed))


def _scores(runs: Sequence[Run]) -> tuple[tuple[float, float], ...]:
    """Return when the policies of a training were screened [s], and their success rates."""
    found = []
    passed_s = 0.0
    for run in runs:
        starts = attempt_starts_s(run)
        found += [
            (passed_s + starts[attempt.number] + row.wall_ns / 1e9, row.outcomes.successes / row.outcomes.episodes)
            for attempt, row in run.judged
            if attempt is not None and row.purpose == "screening" and row.invalid is None
        ]
        passed_s += summarize_run(run).wall_s
    return tuple(sorted(found))
