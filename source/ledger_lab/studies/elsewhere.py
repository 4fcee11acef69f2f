"""Trainings of a study on clusters: where they run, and how they are submitted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from ledger_lab.clusters.engine import Engine, Site, load_site
from ledger_lab.clusters.plans import Plan, PlannedTraining
from ledger_lab.clusters.submissions import Submission, later_folder, new_folder
from ledger_lab.clusters.submit import hand_over, planned_training, show_files
from ledger_lab.errors import UserError
from ledger_lab.studies.declared import Arm, Study
from ledger_lab.studies.study_runs import StudyRuns, is_being_trained
from ledger_lab.studies.trainings import Key, name_of


@dataclass(frozen=True)
class StudyClusters:
    """The clusters of a study: that of ``--on``, or those of the table ``[machine]``. They share one ledger."""

    by_machine: Mapping[str | None, tuple[Engine, Site]]
    """Clusters by the levels of the table ``[machine]``; that of ``--on`` has no level."""

    def of(self, arm: Arm) -> tuple[Engine, Site]:
        """Return the cluster where the trainings of an arm run."""
        return self.by_machine[arm.machine]

    @property
    def log_root(self) -> Path:
        """Root of the ledger."""
        return next(iter(self.by_machine.values()))[1].log_root

    @property
    def names(self) -> str:
        """Names of all clusters, for people."""
        return ", ".join(dict.fromkeys(site.name for _, site in self.by_machine.values()))


def study_clusters(study: Study, on: str | None) -> StudyClusters:
    """Read the files of all clusters of a study.

    Args:
        study: The study.
        on: Value of ``--on``; ``None`` for the clusters of the table ``[machine]``.

    Raises:
        UserError: If a file is missing or wrong, or the clusters do not share one ledger.
    """
    if on is not None:
        return StudyClusters({None: load_site(on)})
    by_file = {machine.cluster: load_site(machine.cluster) for machine in study.machines.values()}
    first = next(iter(by_file.values()))[1]
    sites: dict[str, Site] = {}
    for _, site in by_file.values():
        if sites.setdefault(site.name, site) != site:
            raise UserError(f"study {study.name}: two files of clusters are named {site.name}: rename one of them")
        if site.log_root.resolve() != first.log_root.resolve():
            raise UserError(
                f"study {study.name}: cluster {first.name} writes to {first.log_root}, and cluster {site.name} to "
                f"{site.log_root}: the trainings of a study share one ledger: set the same log_root in both files"
            )
    return StudyClusters({level: by_file[machine.cluster] for level, machine in study.machines.items()})


class StudyElsewhere(StudyRuns):
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
        super().__init__(study, clusters.log_root, self._require_from)

    def _require_from(self, submission: Submission, keys: Collection[Key]) -> None:
        """Refuse a submission to another cluster than those of its trainings.

        Raises:
            UserError: If it was to another cluster, or with another engine.
        """
        cohorts = {cohort for cohort, _ in keys}
        for arm in (each for each in self.study.arms if each.cohort in cohorts):
            engine, site = self._clusters.of(arm)
            if submission.site != site.name:
                way = f"use --on {submission.site}"
                if arm.machine is not None:
                    way = f"name this cluster in [machine] {arm.machine} until its trainings have ended"
                raise UserError(f"{submission.folder} was submitted to cluster {submission.site}: {way}")
            if submission.engine != engine.name:
                raise UserError(
                    f"{submission.folder} was submitted with engine {submission.engine}: keep this engine in the file "
                    f"of cluster {submission.site} until its trainings have ended"
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
            for number, (engine, site, plan) in enumerate(jobs):
                show_files(engine, site, plan, console, later_folder(self._folder, number))
            return
        for engine, site, plan in jobs:
            try:
                engine.check(site, plan)
            except UserError as error:
                if self.study.scaling is None or plan.nodes == 1:
                    raise
                raise UserError(f"study {plan.name}: sizes with nodes = {plan.nodes}: {error}") from error
        submitted: list[str] = []
        for number, (engine, site, plan) in enumerate(jobs):
            try:
                submission = hand_over(engine, site, plan, later_folder(self._folder, number))
            except UserError as error:
                if not submitted:
                    raise
                raise UserError(
                    f"{error} (submitted before: {', '.join(submitted)}; call again for the rest when this is solved)"
                ) from error
            submitted.append(f"job {submission.job} on {submission.site}")
            console.print(
                f"submitted {len(plan.trainings)} trainings to {submission.site} as job {submission.job} "
                f"({submission.folder}); --status shows them, --cancel ends them",
                soft_wrap=True,
            )

    def _jobs(self, extra: Sequence[str], *, nodes: int, at_once: int | None) -> list[tuple[Engine, Site, Plan]]:
        """Return the jobs of the missing trainings. All trainings of a job get equally many machines and GPUs."""
        groups: dict[tuple[str, int, int], tuple[Engine, Site, list[PlannedTraining]]] = {}
        for training in self.missing():
            if is_being_trained(training, self.log_root):
                raise UserError(
                    f"study {self.study.name}: {name_of(training.key)} is being trained on this machine: wait until "
                    "it has ended, or end that training"
                )
            engine, site = self._cluster_for(training.arm)
            machines = training.arm.nodes or nodes
            planned = planned_training(site, name_of(training.key), self.arguments(training, extra), nodes=machines)
            _, _, own = groups.setdefault((site.name, machines, site.gpus_per_node), (engine, site, []))
            own.append(planned)
        names = [name for name, _, _ in groups]
        if at_once is not None and (several := next((name for name in names if names.count(name) > 1), None)):
            raise UserError(
                f"--at_once {at_once}: on {several}, the missing trainings need {names.count(several)} jobs, because "
                "their numbers of machines or GPUs differ, and each job would have this limit: leave --at_once out"
            )
        return [
            (engine, site, Plan(name=self.study.name, trainings=tuple(own), at_once=at_once))
            for engine, site, own in groups.values()
        ]

    def _cluster_for(self, arm: Arm) -> tuple[Engine, Site]:
        """Return the cluster of an arm. Its trainings get one GPU per process, if the cluster has GPUs.

        Raises:
            UserError: If the cluster does not give a training so many GPUs.
        """
        engine, site = self._clusters.of(arm)
        if arm.size is None or not site.gpus_per_node:
            return engine, site
        if arm.size.shape.processes > site.gpus_per_node:
            raise UserError(
                f"size {arm.size}: cluster {site.name} gives a training {site.gpus_per_node} GPUs per node, one per "
                "process: raise this number in its file, or leave the size out"
            )
        return engine, site.with_gpus(arm.size.shape.processes)
