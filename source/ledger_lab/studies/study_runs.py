"""The trainings of a study: which of them the ledger holds, wait or run on a cluster, or are missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from rich.console import Console

from ledger_lab.clusters.plans import limit_flag
from ledger_lab.clusters.submissions import Submission
from ledger_lab.files import NoLocksError, file_lock
from ledger_lab.studies.declared import Study, Training
from ledger_lab.studies.trainings import Key, Trainings, lock_of, name_of, repeated_flags


class StudyRuns(Trainings):
    """The trainings of a study."""

    def __init__(
        self,
        study: Study,
        log_root: Path,
        require_from: Callable[[Submission, Collection[Key]], None] | None = None,
    ) -> None:
        """Read the ledger, and ask the engines.

        Args:
            study: The study.
            log_root: Root of the ledger.
            require_from: As for :class:`~ledger_lab.studies.trainings.Trainings`.

        Raises:
            UserError: If an engine does not answer, or another program is submitting trainings of this study.
        """
        self.study, self.log_root = study, log_root
        super().__init__(study.name, {arm.cohort for arm in study.arms}.__contains__, log_root, require_from)

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

    def clusters(self) -> list[str]:
        """Return the names of the clusters where trainings wait or run."""
        return sorted({each.submission.site for each in self.submitted.values() if each.queued is not None})

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
