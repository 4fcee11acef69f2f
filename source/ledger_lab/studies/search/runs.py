"""The trials of a search: their values from the store, and how their trainings stand from the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ledger_lab.errors import UserError
from ledger_lab.ledger import Run, StateSaved
from ledger_lab.panels import VerdictRule
from ledger_lab.panels.carried import left_budget
from ledger_lab.reports import summarize_run
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.store import TrialStore
from ledger_lab.studies.search.trials import STOCK, Outcome, SeedRun, Trial, cohort_of, outcome_of, seeds_of
from ledger_lab.studies.trainings import Submitted, Trainings
from ledger_lab.training.request import TrainRequest


def read_trials(declaration: SearchDeclaration, store: TrialStore, trainings: Trainings) -> list[Trial]:
    """Return the trials of a search, by number; the stock recipe first.

    Args:
        declaration: The search.
        store: Its trials.
        trainings: Its trainings.

    Raises:
        UserError: If runs were not trained to the same target on the same panel.
    """
    _require_one_panel(declaration, trainings)

    def with_runs(trial: Trial) -> Trial:
        seeds = seeds_of(declaration, trial.number)
        found = (_seed_run(declaration, trainings, trial.number, seed) for seed in seeds)
        return replace(trial, runs=tuple(run for run in found if run is not None))

    return [with_runs(trial) for trial in (Trial(number=STOCK, values={}), *store.stored())]


def _require_one_panel(declaration: SearchDeclaration, trainings: Trainings) -> None:
    """Refuse runs that were not scored alike: their times can't be compared."""
    first: dict[tuple[str, float], str] = {}
    for run in trainings.all_runs():
        first.setdefault((run.declared.panel_id, run.declared.target_success), run.run_id)
    if len(first) > 1:
        raise UserError(
            f"search {declaration.name}: runs {' and '.join(first.values())} have other panels or targets, so their "
            "times can't be compared: restore the panel, the task and the packages, and move away the runs that differ"
        )


def _seed_run(declaration: SearchDeclaration, trainings: Trainings, trial: int, seed: int) -> SeedRun | None:
    """Return how a training stands; ``None`` if it has not been started."""
    key = (cohort_of(declaration, trial), seed)
    runs, submitted = trainings.runs.get(key, []), trainings.submitted.get(key)
    if runs:
        run = _of_ledger(seed, runs, with_scores=not declaration.is_race)
        is_queued = trainings.is_queued(key) and not run.outcome.is_final
        return replace(run, outcome=Outcome.RUNNING) if is_queued else run
    return _of_cluster(seed, submitted) if submitted is not None and submitted.queued is not None else None


def _of_cluster(seed: int, submitted: Submitted) -> SeedRun:
    """Return how a training stands that waits on a cluster, and is not in the ledger yet."""
    planned = submitted.submission.trainings()[submitted.index]
    return SeedRun(
        seed=seed,
        outcome=Outcome.RUNNING,
        wall_s=0.0,
        usd=None,
        cap_s=TrainRequest.parse(planned.start).limit_s,
        started_s=submitted.submission.submitted_at.timestamp(),
    )


def _of_ledger(seed: int, runs: Sequence[Run], *, with_scores: bool) -> SeedRun:
    """Return how a training stands. Runs before the last one were interrupted before they saved a state."""
    last, summaries = runs[-1], [summarize_run(run) for run in runs]
    attempts = [attempt for run in runs for attempt in run.attempts]
    saved = (number for number, attempt in enumerate(reversed(attempts)) if attempt.of(StateSaved))
    outcome = outcome_of(last.attempts[-1].status, next(saved, len(attempts)))
    if last.proven and outcome is not Outcome.RUNNING:
        outcome = Outcome.REACHED
    limit_s = (last.declared.request or {}).get("limit_s")
    cap_s = None if limit_s is None else float(limit_s) + sum(each.wall_s for each in summaries[:-1])
    wall_s = sum(each.wall_s for each in summaries)
    if outcome is Outcome.INTERRUPTED and cap_s is not None and wall_s >= cap_s:
        outcome = Outcome.CAPPED  # it had used up its time when it was interrupted
    usd = [each.declared_usd for each in summaries]
    success = last_success(last) if with_scores and outcome.is_final else None
    return SeedRun(
        seed=seed,
        outcome=outcome,
        wall_s=wall_s,
        usd=None if None in usd else sum(each for each in usd if each is not None),
        cap_s=cap_s,
        started_s=runs[0].declared_at.timestamp(),
        ended_s=max(journal.last_time for journal in last.attempts[-1].journals).timestamp(),
        success=success,
        mean_return=last_return(last) if success == 0 else None,
    )


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
    rule = VerdictRule(run.declared.target_success, left_budget(run).budget)
    return last.outcomes.successes / last.outcomes.episodes if rule.is_decidable(last.outcomes.episodes) else None


def last_return(run: Run) -> float | None:
    """Return the mean return of the training episodes at the end of a run; ``None`` if unknown.

    Args:
        run: The run.
    """
    figures = (window.figures.get("mean_return") for _, window in reversed(run.windows))
    return next((each for each in figures if each is not None), None)
