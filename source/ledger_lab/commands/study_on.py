"""Trainings of a study that run elsewhere; and ``study.py --on CLUSTER``: submits, shows and cancels them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from ledger_lab.commands.study_runs import runs_of, train_arguments
from ledger_lab.commands.submit import complete_drafts, hand_over, planned_training, show_files
from ledger_lab.errors import UserError
from ledger_lab.launch.engine import Engine, Queued, Site, load_engine
from ledger_lab.launch.plans import (
    Plan,
    Submission,
    job_name,
    latest_by_name,
    new_folder,
    read_drafts,
    read_submissions,
)
from ledger_lab.ledger import Run, Status
from ledger_lab.studies import ENDED_FROM_OUTSIDE, Study, Training, is_made, runs_made_by


@dataclass(frozen=True)
class _Known:
    """A submitted training that has not finished according to the ledger."""

    submission: Submission
    index: int
    queued: Queued | None
    """``None`` if it neither waits nor runs."""


class StudyTrainings:
    """The trainings of a study: which of them the ledger holds, wait or run on a cluster, or are missing."""

    def __init__(self, study: Study, log_root: Path) -> None:
        """Read the ledger, and ask the engines for the submitted trainings that have not ended.

        Args:
            study: The study.
            log_root: Root of the ledger.

        Raises:
            UserError: If an engine does not answer, or another program is submitting trainings of this study.
        """
        self._study = study
        complete_drafts(read_drafts(log_root, study.name))
        self._submissions = read_submissions(log_root, study.name)
        self.runs: list[Run] = runs_of(study, log_root)
        """Runs of the study in the ledger."""
        self._known = self._ask()
        if any(known.queued is None for known in self._known.values()):
            self.runs = runs_of(study, log_root)  # a training may have ended before its engine was asked

    def _ask(self) -> dict[str, _Known]:
        """Return what is known of each submitted training that the ledger does not show to have ended, by its name."""
        ended = self._ended()
        known: dict[str, _Known] = {}
        latest = latest_by_name(self._submissions)
        for submission in self._submissions:
            own = {name: index for name, (each, index) in latest.items() if each is submission and name not in ended}
            if not own:
                continue
            engine = self._engine_of(submission)
            if not engine.job_id.fullmatch(submission.job):
                raise UserError(
                    f"{submission.folder}/submission.json: {submission.job!r} is no job of {engine.name}: "
                    f"restore the file; or cancel the job {job_name(submission.folder)}, and remove the folder"
                )
            try:
                queued = engine.queued(submission)
            except UserError as error:
                raise UserError(f"{submission.folder} was submitted to cluster {submission.site}: {error}") from error
            known |= {name: _Known(submission, index, queued.get(index)) for name, index in own.items()}
        return known

    def _engine_of(self, submission: Submission) -> Engine:
        """Return the engine of a submission."""
        return load_engine(submission.engine)

    def _ended(self) -> set[str]:
        """Return the names of the trainings that the ledger shows to have ended for good."""
        open_ends = ENDED_FROM_OUTSIDE | {Status.RUNNING}
        return {name_of(each) for each in self._study.trainings() if is_made(each, self.runs, open_ends)}

    def all_ended(self) -> bool:
        """Tell whether all trainings have ended for good.

        A run whose job has vanished is neither queued nor missing until it counts as lost.
        """
        return self._ended() == {name_of(each) for each in self._study.trainings()}

    def any_goes_on(self) -> bool:
        """Tell whether a training waits or runs, on a cluster or as a run in the ledger."""
        ended = self._ended()
        return any(
            self._is_queued(each) or (is_made(each, self.runs) and name_of(each) not in ended)
            for each in self._study.trainings()
        )

    def missing(self) -> list[Training]:
        """Return the trainings that are neither made nor queued."""
        return [
            training
            for training in self._study.trainings()
            if not self._is_queued(training) and not is_made(training, self.runs)
        ]

    def queued(self) -> list[Training]:
        """Return the trainings that wait or run."""
        return [training for training in self._study.trainings() if self._is_queued(training)]

    def clusters(self) -> list[str]:
        """Return the names of the clusters where trainings wait or run."""
        return sorted({known.submission.site for known in self._known.values() if known.queued is not None})

    def _is_queued(self, training: Training) -> bool:
        """Tell whether a training waits or runs."""
        return (known := self._known.get(name_of(training))) is not None and known.queued is not None

    def show(self, console: Console) -> None:
        """Print one line for each training."""
        for training in self._study.trainings():
            console.print(f"{name_of(training)}: {self._state(training)}", soft_wrap=True)

    def _state(self, training: Training) -> str:
        """Describe the state of a training."""
        known, made = self._known.get(name_of(training)), runs_made_by(training, self.runs)
        run = f"run {made[-1].run_id}: {made[-1].attempts[-1].status.replace('_', ' ')}" if made else None
        if known is not None and known.queued is not None:
            return f"{known.queued.said}, job {known.submission.job}_{known.index}" + (f"; {run}" if run else "")
        if run is not None:
            return run
        if known is None:
            return "not submitted"
        ending = load_engine(known.submission.engine).ending(known.submission, known.index)
        status = known.submission.exit_status(known.index)
        said = [each for each in (ending, None if status is None else f"exit status {status}") if each]
        output = known.submission.output(known.index)
        return ", ".join(said or ["ended without a row"]) + (f": see {output}" if output.exists() else "")


class StudyElsewhere(StudyTrainings):
    """A study on a cluster."""

    def __init__(self, study: Study, engine: Engine, site: Site) -> None:
        """Ask the engine for the trainings of earlier submissions.

        Args:
            study: The study.
            engine: The engine.
            site: The cluster.

        Raises:
            UserError: If the engine does not answer, or an earlier submission was to another cluster.
        """
        self._engine, self._site = engine, site
        self._folder = new_folder(site.log_root, study.name)  # before the queue is asked; see hand_over
        super().__init__(study, site.log_root)

    def _engine_of(self, submission: Submission) -> Engine:
        """Return the engine of a submission, which must be to this cluster."""
        if submission.site == self._site.name and submission.engine != self._engine.name:
            raise UserError(
                f"{submission.folder} was submitted with engine {submission.engine}: keep this engine in the file of "
                f"cluster {self._site.name} until its trainings have ended"
            )
        if submission.site != self._site.name:
            raise UserError(
                f"{submission.folder} was submitted to cluster {submission.site}: use --on {submission.site}"
            )
        return self._engine

    def submit(self, extra: Sequence[str], console: Console, *, nodes: int, at_once: int | None, dry_run: bool) -> None:
        """Submit the missing trainings.

        Args:
            extra: Further arguments of all trainings.
            console: Where to print.
            nodes: Machines of each training.
            at_once: Largest number of trainings that run at the same time.
            dry_run: Whether to print the files instead.

        Raises:
            UserError: If a training or the submission is refused. Then nothing is submitted.
        """
        trainings = [
            planned_training(
                self._site,
                name_of(training),
                train_arguments(training, self._study, self.runs, extra),
                nodes=nodes,
            )
            for training in self.missing()
        ]
        plan = Plan(name=self._study.name, trainings=tuple(trainings), at_once=at_once)
        if dry_run:
            show_files(self._engine, self._site, plan, console)
            return
        submission = hand_over(self._engine, self._site, plan, self._folder)
        console.print(
            f"submitted {len(trainings)} trainings to {self._site.name} as job {submission.job} "
            f"({submission.folder}); --status shows them, --cancel ends them",
            soft_wrap=True,
        )

    def cancel(self, console: Console) -> None:
        """End all trainings that wait or run."""
        jobs = {known.submission.job: known.submission for known in self._known.values() if known.queued is not None}
        count = len(self.queued())
        for submission in jobs.values():
            self._engine.cancel(submission)
        console.print(
            f"cancelled {count} trainings: job {', '.join(jobs)}"
            if jobs
            else "nothing to cancel: no training is queued"
        )


def name_of(training: Training) -> str:
    """Return the name of a training in plans."""
    return f"{training.arm.cohort} seed {training.seed}"
