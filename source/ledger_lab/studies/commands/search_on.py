"""Trainings of a search on a cluster: each is a submission of its own, as soon as the search decides on it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.console import Console

from ledger_lab.clusters.drafts import read_drafts
from ledger_lab.clusters.engine import Engine, Site, load_engine, load_site
from ledger_lab.clusters.plans import Plan, PlannedTraining, read_run_dir
from ledger_lab.clusters.submission_folders import new_folder
from ledger_lab.clusters.submissions import Submission, latest_by_name, read_submissions
from ledger_lab.clusters.submit import complete_drafts, hand_over, planned_training, show_files
from ledger_lab.errors import UserError
from ledger_lab.files import new_file
from ledger_lab.studies.commands.search_runs import Waiting
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.space import Values
from ledger_lab.studies.search.trial_recipe import recorded_values
from ledger_lab.studies.search.trials import STOCK, SearchTraining, cohort_of, place_of
from ledger_lab.tasks.recipes.recipe_file import read_recipe
from ledger_lab.training.request import TrainRequest


@dataclass(frozen=True)
class Gone:
    """A submitted training that neither waits nor runs, although the ledger does not show that it has ended."""

    job: str
    """Id of the job of the last submission, as the engine gives it."""
    has_begun: bool
    """Whether the last submission has noted its run, which it does when it begins an attempt."""
    output: Path
    """Output of the last submission."""
    is_refused: bool
    """Whether ``train.py`` refused the last submission."""
    folder: Path
    """Folder of the last submission."""


def require_nothing_queued(declaration: SearchDeclaration, log_root: Path, ended: Collection[SearchTraining]) -> None:
    """Refuse to train on this machine while a cluster has trainings of the search: they would be trained twice.

    Args:
        declaration: The search.
        log_root: Root of the ledger.
        ended: Trainings that the ledger shows to have ended.

    Raises:
        UserError: If a training waits or runs on a cluster, or the cluster does not answer.
    """
    complete_drafts(read_drafts(log_root, declaration.cohort_stem))
    names = {_name(declaration, each) for each in ended}
    for name, (submission, index) in latest_by_name(read_submissions(log_root, declaration.cohort_stem)).items():
        if name not in names and index in load_engine(submission.engine).queued(submission):
            raise UserError(
                f"search {declaration.name}: {name} waits or runs on {submission.site} as job {submission.job}: go on "
                f"with --on CLUSTER (the file of cluster {submission.site}), or end it with --on CLUSTER --cancel"
            )


def _name(declaration: SearchDeclaration, training: SearchTraining) -> str:
    """Return the name of a training in plans."""
    return f"{cohort_of(declaration, training.place)} seed {training.seed}"


class SearchJobs:
    """The submissions of a search."""

    def __init__(self, declaration: SearchDeclaration, on: str) -> None:
        """Read the file of the cluster.

        Args:
            declaration: The search.
            on: Name or path of the file.

        Raises:
            UserError: If it is missing or wrong.
        """
        self._declaration = declaration
        self.engine: Engine
        self.site: Site
        self.engine, self.site = load_site(on)

    @property
    def log_root(self) -> Path:
        """Root of the ledger."""
        return self.site.log_root

    def submit(self, training: SearchTraining, arguments: Sequence[str]) -> Submission:
        """Submit a training.

        Args:
            training: The training.
            arguments: Arguments of ``train.py``.

        Raises:
            UserError: If it is refused.
        """
        folder = new_folder(self.log_root, self._declaration.cohort_stem)
        return hand_over(self.engine, self.site, self._plan(training, arguments), folder)

    def show(self, training: SearchTraining, arguments: Sequence[str], console: Console) -> None:
        """Print the files that would be submitted for a training.

        Args:
            training: The training.
            arguments: Arguments of ``train.py``.
            console: Where to print.

        Raises:
            UserError: If it would be refused.
        """
        folder = new_folder(self.log_root, self._declaration.cohort_stem)
        show_files(self.engine, self.site, self._plan(training, arguments), console, folder)

    def _plan(self, training: SearchTraining, arguments: Sequence[str]) -> Plan:
        """Return the plan of one training."""
        planned = planned_training(self.site, _name(self._declaration, training), arguments, nodes=1)
        return Plan(name=self._declaration.cohort_stem, trainings=(planned,))

    def ask(
        self, ended: Collection[SearchTraining]
    ) -> tuple[dict[SearchTraining, Waiting], dict[SearchTraining, Gone]]:
        """Ask the engines for the submitted trainings that have not ended.

        Args:
            ended: Trainings that the ledger shows to have ended.

        Returns:
            The trainings that wait or run, and the others.

        Raises:
            UserError: If an engine does not answer.
        """
        complete_drafts(read_drafts(self.log_root, self._declaration.cohort_stem))
        waiting: dict[SearchTraining, Waiting] = {}
        gone: dict[SearchTraining, Gone] = {}
        names = {_name(self._declaration, each) for each in ended}
        submissions = read_submissions(self.log_root, self._declaration.cohort_stem)
        kept = [submission for submission in submissions if not _cancelled(submission).exists()]
        for name, (submission, index) in latest_by_name(submissions).items():
            if name in names:
                continue
            planned = submission.trainings()[index]
            training = self._training(planned)
            if index in load_engine(submission.engine).queued(submission):
                waiting[training] = self._waiting(training, planned, submission)
            elif submission in kept:
                gone[training] = Gone(
                    job=submission.job,
                    has_begun=read_run_dir(submission.folder, index) is not None,
                    output=submission.output(index),
                    is_refused=submission.is_refused(index),
                    folder=submission.folder,
                )
        return waiting, gone

    def cancel(self) -> list[str]:
        """End all trainings that wait or run, and return their jobs. The next search starts or resumes them.

        Raises:
            UserError: If an engine does not answer, or the folder of a submission can't be written to.
        """
        jobs = []
        latest = latest_by_name(read_submissions(self.log_root, self._declaration.cohort_stem))
        for submission in {each.folder: each for each, _ in latest.values()}.values():
            engine = load_engine(submission.engine)
            if engine.queued(submission):
                try:
                    new_file(_cancelled(submission)).close()
                except OSError as error:
                    raise UserError(
                        f"cannot write to {submission.folder}: {error.strerror}: cancel as its user"
                    ) from error
                engine.cancel(submission)
                jobs.append(submission.job)
        return jobs

    def _training(self, planned: PlannedTraining) -> SearchTraining:
        """Return which training of the search a planned training is."""
        cohort, _, seed = planned.what.rpartition(" seed ")
        place = place_of(self._declaration, cohort)
        if place is None or not seed.isdecimal():
            raise UserError(
                f"search {self._declaration.name}: a submission has {planned.what!r}, which is none of its trainings"
            )
        return SearchTraining(place, int(seed))

    def _waiting(self, training: SearchTraining, planned: PlannedTraining, submission: Submission) -> Waiting:
        """Return what is known of a training before its run appears in the ledger."""
        asked = TrainRequest.parse(planned.start)
        return Waiting(
            values=self._values(training, asked),
            cap_s=asked.limit_s,
            since_s=datetime.fromisoformat(submission.submitted_at).timestamp(),
            checkpoint=asked.checkpoint,
        )

    def _values(self, training: SearchTraining, asked: TrainRequest) -> Values:
        """Return the values of a submitted training; none for a resumed one, whose values are in the ledger."""
        if asked.resume is not None:
            return {}
        recipe = None if asked.recipe is None else read_recipe(Path(asked.recipe)).to_data()
        return recorded_values(
            self._declaration, recipe, asked.rl_library or "", is_stock=training.place.trial == STOCK
        )


def _cancelled(submission: Submission) -> Path:
    """Return the file that marks a submission as cancelled by the user."""
    return submission.folder / "cancelled"
