"""Trainings of a study that run on clusters: ``study.py`` submits, shows and cancels them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from ledger_lab.clusters.drafts import read_drafts
from ledger_lab.clusters.engine import Engine, Queued, load_engine
from ledger_lab.clusters.plans import Plan, PlannedTraining
from ledger_lab.clusters.submission_folders import job_name, later_folder, new_folder
from ledger_lab.clusters.submissions import Submission, latest_by_name, read_submissions
from ledger_lab.clusters.submit import complete_drafts, hand_over, planned_training, show_files
from ledger_lab.errors import UserError
from ledger_lab.ledger import Run, Status
from ledger_lab.reports.finished import ENDED_FROM_OUTSIDE
from ledger_lab.studies.commands.study_clusters import Cluster, StudyClusters
from ledger_lab.studies.commands.study_runs import is_being_trained, runs_of, train_arguments
from ledger_lab.studies.declared import Arm, Study, Training, is_made, runs_made_by


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
        self._study, self._log_root = study, log_root
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
            engine = self._engine_of(submission, own)
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

    def _engine_of(self, submission: Submission, names: Collection[str]) -> Engine:
        """Return the engine of a submission.

        Args:
            submission: The submission.
            names: Names of its trainings that have not ended.
        """
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
    """A study on one or several clusters."""

    def __init__(self, study: Study, clusters: StudyClusters) -> None:
        """Ask the engines for the trainings of earlier submissions.

        Args:
            study: The study.
            clusters: Where its trainings run.

        Raises:
            UserError: If an engine does not answer, or an earlier submission was to another cluster.
        """
        self._clusters = clusters
        self._folder = new_folder(clusters.log_root, study.name)  # before the queue is asked; see hand_over
        super().__init__(study, clusters.log_root)

    def _engine_of(self, submission: Submission, names: Collection[str]) -> Engine:
        """Return the engine of a submission. Its trainings must belong to this cluster."""
        for training in self._study.trainings():
            if name_of(training) in names:
                self._require_from(submission, training)
        return load_engine(submission.engine)

    def _require_from(self, submission: Submission, training: Training) -> None:
        """Refuse a submission to another cluster than that of its training.

        Raises:
            UserError: If it was to another cluster, or with another engine.
        """
        cluster = self._clusters.of(training.arm)
        if submission.site != cluster.site.name:
            way = f"use --on {submission.site}"
            if training.arm.machine is not None:
                way = f"name this cluster in [machine] {training.arm.machine} until its trainings have ended"
            raise UserError(f"{submission.folder} was submitted to cluster {submission.site}: {way}")
        if submission.engine != cluster.engine.name:
            raise UserError(
                f"{submission.folder} was submitted with engine {submission.engine}: keep this engine in the file of "
                f"cluster {submission.site} until its trainings have ended"
            )

    def submit(self, extra: Sequence[str], console: Console, *, nodes: int, at_once: int | None, dry_run: bool) -> None:
        """Submit the missing trainings.

        Args:
            extra: Further arguments of all trainings.
            console: Where to print.
            nodes: Machines of each training of a study without sizes.
            at_once: Largest number of trainings that run at the same time on a cluster.
            dry_run: Whether to print the files instead.

        Raises:
            UserError: If a training or a submission is refused. Then nothing is submitted, or the message tells what
                was.
        """
        jobs = self._jobs(extra, nodes=nodes, at_once=at_once)
        if dry_run:
            for folder, job in jobs.items():
                show_files(job.cluster.engine, job.cluster.site, job.plan, console, folder)
            return
        for job in jobs.values():
            job.check()
        submitted: list[str] = []
        for folder, job in jobs.items():
            try:
                submission = hand_over(job.cluster.engine, job.cluster.site, job.plan, folder)
            except UserError as error:
                if not submitted:
                    raise
                raise UserError(
                    f"{error} (submitted before: {', '.join(submitted)}; call again for the rest when this is solved)"
                ) from error
            submitted.append(f"job {submission.job} on {submission.site}")
            console.print(
                f"submitted {len(job.plan.trainings)} trainings to {submission.site} as job {submission.job} "
                f"({submission.folder}); --status shows them, --cancel ends them",
                soft_wrap=True,
            )

    def _jobs(self, extra: Sequence[str], *, nodes: int, at_once: int | None) -> dict[Path, _Job]:
        """Return the jobs of the missing trainings, by the folders of their submissions.

        All trainings of a job get equally many machines and GPUs.
        """
        groups: dict[tuple[str, int, int], list[tuple[Cluster, PlannedTraining]]] = {}
        for training in self.missing():
            if is_being_trained(training, self._log_root):
                raise UserError(
                    f"study {self._study.name}: {name_of(training)} is being trained on this machine: wait until "
                    "it has ended, or end that training"
                )
            cluster, machines = _cluster_for(training.arm, self._clusters), training.arm.nodes or nodes
            planned = planned_training(
                cluster.site,
                name_of(training),
                train_arguments(training, self._study, self.runs, extra),
                nodes=machines,
            )
            key = (cluster.site.name, machines, cluster.site.gpus_per_node)
            groups.setdefault(key, []).append((cluster, planned))
        names = [name for name, _, _ in groups]
        if at_once is not None and (several := next((name for name in names if names.count(name) > 1), None)):
            raise UserError(
                f"--at_once {at_once}: on {several}, the missing trainings need {names.count(several)} jobs, because "
                "their numbers of machines or GPUs differ, and each job would have this limit: leave --at_once out"
            )
        jobs = {}
        for number, group in enumerate(groups.values()):
            plan = Plan(name=self._study.name, trainings=tuple(planned for _, planned in group), at_once=at_once)
            jobs[later_folder(self._folder, number)] = _Job(group[0][0], plan, self._study.scaling is not None)
        return jobs

    def cancel(self, console: Console) -> None:
        """End all trainings that wait or run."""
        waiting = (known.submission for known in self._known.values() if known.queued is not None)
        submissions = {submission.folder: submission for submission in waiting}
        count = len(self.queued())
        for submission in submissions.values():
            load_engine(submission.engine).cancel(submission)
        jobs = ", ".join(submission.job for submission in submissions.values())
        console.print(
            f"cancelled {count} trainings: job {jobs}" if submissions else "nothing to cancel: no training is queued"
        )


@dataclass(frozen=True)
class _Job:
    """Trainings that are submitted together."""

    cluster: Cluster
    plan: Plan
    has_sizes: bool
    """Whether the study file sets the numbers of machines."""

    def check(self) -> None:
        """Refuse what can't run.

        Raises:
            UserError: See :meth:`~ledger_lab.clusters.engine.Engine.check`.
        """
        try:
            self.cluster.engine.check(self.cluster.site, self.plan)
        except UserError as error:
            if self.has_sizes and self.plan.nodes > 1:
                raise UserError(f"study {self.plan.name}: sizes with nodes = {self.plan.nodes}: {error}") from error
            raise


def _cluster_for(arm: Arm, clusters: StudyClusters) -> Cluster:
    """Return the cluster where the trainings of an arm run. They get one GPU per process, if the cluster has GPUs.

    Raises:
        UserError: If the cluster does not give a training so many GPUs.
    """
    cluster = clusters.of(arm)
    gpus = cluster.site.gpus_per_node
    if arm.size is None or not gpus:
        return cluster
    if arm.size.shape.processes > gpus:
        raise UserError(
            f"size {arm.size}: cluster {cluster.site.name} gives a training {gpus} GPUs per node, one per process: "
            "raise this number in its file, or leave the size out"
        )
    return replace(cluster, site=cluster.site.with_gpus(arm.size.shape.processes))


def name_of(training: Training) -> str:
    """Return the name of a training in plans."""
    return f"{training.arm.cohort} seed {training.seed}"
