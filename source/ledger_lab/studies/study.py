"""The trainings of a study: which of them the ledger holds, wait or run on a cluster, or are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from ledger_lab.clusters.engine import Engine, Site, load_site
from ledger_lab.clusters.plans import Plan, PlannedTraining, limit_flag
from ledger_lab.clusters.submissions import later_folder, new_folder
from ledger_lab.clusters.submit import hand_over, planned_training, show_files
from ledger_lab.errors import UserError
from ledger_lab.files import NoLocksError, file_lock
from ledger_lab.studies.declared import Arm, Study, Training
from ledger_lab.studies.trainings import Trainings, lock_of, name_of, repeated_flags

type Clusters = Mapping[str | None, tuple[Engine, Site]]
"""Clusters by the levels of the table ``[machine]``; that of ``--on`` has no level; none to train on this machine."""


def clusters_of(study: Study, on: str | None) -> Clusters:
    """Read the files of all clusters of a study, which share one ledger.

    Args:
        study: The study.
        on: Value of ``--on``; ``None`` for the clusters of the table ``[machine]``, if there is one.

    Raises:
        UserError: If a file is missing or wrong, or the clusters do not share one ledger.
    """
    if on is not None:
        return {None: load_site(on)}
    clusters: dict[str | None, tuple[Engine, Site]] = {
        level: load_site(machine.cluster) for level, machine in study.machines.items()
    }
    sites = [site for _, site in clusters.values()]
    if other := next((each for each in sites if each.log_root.resolve() != sites[0].log_root.resolve()), None):
        raise UserError(
            f"study {study.name}: cluster {sites[0].name} writes to {sites[0].log_root}, and cluster {other.name} to "
            f"{other.log_root}: the trainings of a study share one ledger: set the same log_root in both files"
        )
    return clusters


class StudyTrainings(Trainings):
    """The trainings of a study."""

    def __init__(self, study: Study, log_root: Path, clusters: Clusters) -> None:
        """Read the ledger, and ask the engines for the trainings of earlier submissions.

        Args:
            study: The study.
            log_root: Root of the ledger.
            clusters: Where its trainings run.

        Raises:
            UserError: If an engine does not answer, or another program is submitting trainings of this study.
        """
        self.study, self.clusters = study, clusters
        self._folder = new_folder(log_root, study.name)  # before the queue is asked; see hand_over
        super().__init__(study.name, {arm.cohort for arm in study.arms}.__contains__, log_root)

    def missing(self) -> list[Training]:
        """Return the trainings to start: they neither wait nor run, and have not ended."""
        every = self.study.trainings()
        return [each for each in every if not self.is_queued(each.key) and not self.is_made(each.key)]

    def queued(self) -> list[Training]:
        """Return the trainings that wait or run on a cluster."""
        return [each for each in self.study.trainings() if self.is_queued(each.key)]

    def any_goes_on(self) -> bool:
        """Tell whether a training waits or runs, here or on a cluster."""
        return any(
            self.is_queued(each.key) or (self.is_made(each.key) and not self.has_ended(each.key))
            for each in self.study.trainings()
        )

    def head(self) -> str:
        """Return how many trainings are made, and how many wait or run."""
        study, missing, queued = self.study, self.missing(), self.queued()
        count = len(study.seeds) * len(study.arms)
        sites = {self.submitted[each.key].submission.site for each in queued}
        return (
            f"study {study.name}: {study.about or study.name} · {len(study.arms)} arms × {len(study.seeds)} seeds · "
            f"{count - len(missing) - len(queued)} of {count} trainings are in {self.log_root}"
            + (f", {len(queued)} wait or run on {', '.join(sorted(sites))}" if queued else "")
        )

    def show(self, console: Console) -> None:
        """Print one line for each training."""
        for each in self.study.trainings():
            console.print(f"{name_of(each.key)}: {self.state(each.key)}", soft_wrap=True)

    def arguments(self, training: Training, extra: Sequence[str]) -> list[str]:
        """Return the arguments of ``train.py`` that start, resume or repeat a training.

        A run that was interrupted before it saved a state is repeated, in the time that it has left.

        Args:
            training: The training.
            extra: Further arguments of all trainings.
        """
        asked = [*training.arm.arguments, *extra]
        if interrupted := self.resumable(training.key):
            return ["--resume", interrupted.run_id, *repeated_flags(asked)]
        cohort, size = training.arm.cohort, len(self.study.seeds)
        asked += ["--seed", str(training.seed), "--cohort", cohort, "--cohort_size", str(size)]
        repeated = self.runs.get(training.key)
        return [*asked, *limit_flag(repeated[-1].limit_left_s if repeated else None)]

    def submit(self, extra: Sequence[str], console: Console, *, nodes: int, at_once: int | None, dry_run: bool) -> None:
        """Submit the missing trainings.

        Args:
            extra: Further arguments of all trainings.
            console: Where to print.
            nodes: Machines of each training of a study without sizes.
            at_once: Largest number of trainings of a job that run at the same time.
            dry_run: Whether to print the files instead.

        Raises:
            UserError: If a training or a submission is refused. What was submitted before is printed.
        """
        jobs = self._jobs(extra, nodes=nodes, at_once=at_once)
        if dry_run:
            for number, (engine, site, plan) in enumerate(jobs):
                show_files(engine, site, plan, console, later_folder(self._folder, number))
            return
        for engine, site, plan in jobs:
            engine.check(site, plan)
        for number, (engine, site, plan) in enumerate(jobs):
            submission = hand_over(engine, site, plan, later_folder(self._folder, number))
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
        return [
            (engine, site, Plan(name=self.study.name, trainings=tuple(own), at_once=at_once))
            for engine, site, own in groups.values()
        ]

    def _cluster_for(self, arm: Arm) -> tuple[Engine, Site]:
        """Return the cluster of an arm. Its trainings get one GPU per process, if the cluster has GPUs.

        Raises:
            UserError: If the cluster does not give a training so many GPUs.
        """
        engine, site = self.clusters[arm.machine]
        if arm.size is None or not site.gpus_per_node:
            return engine, site
        if arm.size.shape.processes > site.gpus_per_node:
            raise UserError(
                f"size {arm.size}: cluster {site.name} gives a training {site.gpus_per_node} GPUs per node, one per "
                "process: raise this number in its file, or leave the size out"
            )
        return engine, site.with_gpus(arm.size.shape.processes)


def lock_name(training: Training) -> str:
    """Return the name of the lock of a training."""
    return f"{training.arm.cohort}/{training.seed}"


def is_being_trained(training: Training, log_root: Path) -> bool:
    """Tell whether a program on this machine makes a training now; without locks in the file system, it is unknown."""
    lock = lock_of(log_root, lock_name(training))
    if not lock.exists():
        return False
    try:
        with file_lock(lock) as (_, is_free):
            return not is_free
    except NoLocksError:
        return False
