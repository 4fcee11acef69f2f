"""The trainings of a study or a search: what the ledger and the engines say of them, and how they start here."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from ledger_lab.clusters.engine import Queued, load_engine
from ledger_lab.clusters.planned import has_state
from ledger_lab.clusters.plans import train_program
from ledger_lab.clusters.ray_job import ending_with_this_process
from ledger_lab.clusters.submissions import Submission, latest_by_name
from ledger_lab.clusters.submit import known_submissions
from ledger_lab.files import NoLocksError, file_lock, make_folder
from ledger_lab.ledger import Run, StateSaved, Status, read_ledger
from ledger_lab.ledger.find import tell_damage
from ledger_lab.ledger.runs import ENDED_FROM_OUTSIDE
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.exit_status import ENDING, exception_of

type Key = tuple[str, int]
"""Cohort and seed of a training."""

_LOCKS = "studies"
"""Folder of the locks of trainings, below the root of the ledger."""


_TOLD: set[str] = set()
"""Damage of ledgers that was printed: a search reads its ledger often."""


@dataclass(frozen=True)
class Submitted:
    """The last submission of a training that has not finished according to the ledger."""

    submission: Submission
    index: int
    queued: Queued | None
    """``None`` if it neither waits nor runs."""

    def ending(self) -> str:
        """Describe how it ended, if it neither waits nor runs."""
        ending = load_engine(self.submission.engine).ending(self.submission, self.index)
        status = self.submission.exit_status(self.index)
        said = [each for each in (ending, None if status is None else f"exit status {status}") if each]
        output = self.submission.output(self.index)
        if not output.exists():
            return ", ".join(said or ["did not start before its job ended"])
        return f"{', '.join(said or ['ended without a row'])}: see {output}"


def name_of(key: Key) -> str:
    """Return the name of a training in plans."""
    return f"{key[0]} seed {key[1]}"


class Trainings:
    """The trainings of some cohorts. It reads the ledger once, and asks the engines once."""

    def __init__(
        self,
        name: str,
        is_own: Callable[[str], bool],
        log_root: Path,
    ) -> None:
        """Read the ledger, and ask the engines for the submitted trainings that have not ended.

        Args:
            name: Name of their submissions.
            is_own: Tells whether a cohort belongs to them.
            log_root: Root of the ledger.

        Raises:
            UserError: If an engine does not answer, or another program is submitting trainings of this name.
        """
        self._is_own, self.log_root = is_own, log_root
        submissions = known_submissions(log_root, name)
        self.runs: dict[Key, list[Run]] = self._read()
        """Runs of each training, oldest first; several if one was interrupted before it saved a state."""
        self.submitted: dict[Key, Submitted] = self._ask(submissions)
        """The last submissions of trainings that the ledger does not show to have ended."""
        if any(each.queued is None for each in self.submitted.values()):
            self.runs = self._read()  # a training may have ended before its engine was asked

    def _read(self) -> dict[Key, list[Run]]:
        """Read the runs."""
        found: dict[Key, list[Run]] = defaultdict(list)
        ledger = read_ledger(self.log_root.resolve(), tolerate_damage=True)
        tell_damage(each for each in ledger.damage if str(each) not in _TOLD)
        _TOLD.update(map(str, ledger.damage))
        for run in ledger.runs:
            if run.cohort is not None and run.attempts and self._is_own(run.cohort):
                found[run.cohort, run.declared.seed].append(run)
        return found

    def _ask(self, submissions: Sequence[Submission]) -> dict[Key, Submitted]:
        """Ask the engines for the trainings that the ledger does not show to have ended."""
        own: dict[Path, dict[Key, int]] = defaultdict(dict)
        by_folder = {each.folder: each for each in submissions}
        for name, (submission, index) in latest_by_name(submissions).items():
            cohort, _, seed = name.rpartition(" seed ")
            if self._is_own(cohort) and not self.has_ended((cohort, int(seed))):
                own[submission.folder][cohort, int(seed)] = index
        found: dict[Key, Submitted] = {}
        for folder, indices in own.items():
            submission = by_folder[folder]
            queued = load_engine(submission.engine).queued(submission)
            found |= {key: Submitted(submission, index, queued.get(index)) for key, index in indices.items()}
        return found

    def all_runs(self) -> list[Run]:
        """Return all runs, oldest first."""
        return sorted((run for runs in self.runs.values() for run in runs), key=lambda run: run.declared_at)

    @property
    def saved_states(self) -> int:
        """Number of attempts that saved a state."""
        return sum(bool(attempt.of(StateSaved)) for run in self.all_runs() for attempt in run.attempts)

    def has_ended(self, key: Key) -> bool:
        """Tell whether one of the runs of a training has ended for good, and does not still run."""
        return any(run.has_finished(ENDED_FROM_OUTSIDE | {Status.RUNNING}) for run in self.runs.get(key, ()))

    def is_made(self, key: Key) -> bool:
        """Tell whether a training need not be started: one of its runs has ended for good, or goes on."""
        return any(run.has_finished() for run in self.runs.get(key, ()))

    def is_queued(self, key: Key) -> bool:
        """Tell whether a training waits or runs on a cluster."""
        return (found := self.submitted.get(key)) is not None and found.queued is not None

    def resumable(self, key: Key) -> Run | None:
        """Return the latest run of a training with a saved state to resume from; ``None`` if there is none."""
        return next((run for run in reversed(self.runs.get(key, ())) if has_state(run)), None)

    def state(self, key: Key) -> str:
        """Describe the state of a training."""
        found, runs = self.submitted.get(key), self.runs.get(key)
        run = f"run {runs[-1].run_id}: {runs[-1].attempts[-1].status.replace('_', ' ')}" if runs else None
        if found is not None and found.queued is not None:
            job = f"{found.queued.said}, job {found.submission.job}_{found.index}"
            return f"{job}; {run}" if run else job
        return run or ("not submitted" if found is None else found.ending())

    def cancel(self) -> str:
        """End all trainings that wait or run, and return what was done, in words."""
        waiting = [each for each in self.submitted.values() if each.queued is not None]
        submissions = {each.submission.folder: each.submission for each in waiting}
        for submission in submissions.values():
            load_engine(submission.engine).cancel(submission)
        jobs = ", ".join(submission.job for submission in submissions.values())
        return f"cancelled {len(waiting)} trainings: job {jobs}" if jobs else "nothing to cancel: no training is queued"


def lock_of(log_root: Path, name: str) -> Path:
    """Return the file that the program locks that does some work."""
    return log_root.resolve() / _LOCKS / f"{name}.lock"


@contextmanager
def only_program(log_root: Path, name: str) -> Iterator[Sequence[int] | None]:
    """Keep other programs of this machine from the same work until the context ends, and its trainings have ended.

    The ledger shows a training only seconds after its start. So a training inherits the lock: if its program is killed,
    it is not started twice.

    Args:
        log_root: Root of the ledger.
        name: Name of the work: a training or a search.

    Yields:
        Descriptors that trainings must inherit; ``None`` if another program does this work.

    Raises:
        UserError: If the root can't be written to.
    """
    root, lock = log_root.resolve(), lock_of(log_root, name)
    make_folder(root)
    make_folder(lock.parent, root=root)
    with ExitStack() as stack:
        kept: Sequence[int] | None = ()
        try:
            descriptor, is_free = stack.enter_context(file_lock(lock))
            kept = (descriptor,) if is_free else None
        except NoLocksError as error:
            warning = f"{error}; without locks, if this program is killed, end its training, too"
            make_console(sys.stderr).print(warning, soft_wrap=True)
        yield kept


def repeated_flags(arguments: Sequence[str]) -> list[str]:
    """Return the arguments that a resumed run does not take from its declaration, and that must be given again."""
    parser = argparse.ArgumentParser(add_help=False)
    for repeated in ("--nproc", "--cpu_threads", "--logger", "--grace_s"):
        parser.add_argument(repeated, action="append", default=[])
    said, others = parser.parse_known_args(list(arguments))
    switches = [each for each in ("--allow_public_address",) if each in others]
    return [
        *(each for name, values in vars(said).items() for value in values for each in (f"--{name}", value)),
        *switches,
    ]


def train_command(arguments: Sequence[str], log_root: Path) -> list[str]:
    """Return the command line of a training on this machine.

    Args:
        arguments: Arguments of ``train.py``.
        log_root: Root of the ledger.
    """
    return [sys.executable, str(train_program()), *arguments, "--log_root", str(log_root)]


def train_here(command: Sequence[str], longest_s: float | None = None, keeps: Sequence[int] = ()) -> int:
    """Train, and return the exit status. A signal that asks this program to end is passed on to the training.

    If something kills this program, the training gets SIGTERM: it saves its state, and ends.

    Args:
        command: The command line.
        longest_s: Time after which the training is taken to hang, and asked to end [s]; ``None`` for never.
        keeps: Descriptors that stay open in the training.

    Raises:
        KeyboardInterrupt: If a signal of the terminal asked to end, after the training has ended.
        Terminated: If another signal asked to end, after the training has ended.
    """
    asked: list[signal.Signals] = []
    early: list[int] = []
    started: list[subprocess.Popen[bytes]] = []

    def pass_on(signum: int, _: FrameType | None) -> None:
        asked.append(signal.Signals(signum))
        for process in started:
            process.send_signal(signum)
        if not started:
            early.append(signum)

    heard = [signum for signum in ENDING if signal.getsignal(signum) is not signal.SIG_IGN]  # nohup ignores SIGHUP
    former = {signum: signal.signal(signum, pass_on) for signum in heard}
    try:
        with subprocess.Popen([*ending_with_this_process(), *command], pass_fds=keeps) as process:
            started.append(process)
            for signum in early:  # they came while the process was being started
                process.send_signal(signum)
            with suppress(subprocess.TimeoutExpired):
                process.wait(longest_s)
            if process.returncode is None:
                process.terminate()
            status = process.wait()
    finally:
        for signum, handler in former.items():
            signal.signal(signum, handler)
    if asked:
        raise exception_of(asked[0])
    return status
