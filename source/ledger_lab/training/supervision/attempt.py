"""One attempt of a run, in the working process: it ends with exactly one status, whatever the cause."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from ledger_lab.errors import UserError
from ledger_lab.ledger import AttemptEnded, Status
from ledger_lab.ledger.endings import status_of
from ledger_lab.ledger.meters.suspension import Suspensions
from ledger_lab.names import as_started
from ledger_lab.reports.terminal.console import EXIT_USER_ERROR
from ledger_lab.reports.terminal.exit_status import ENDING, exception_of, exit_status_of
from ledger_lab.training.writer import AttemptWriter

GRACE_S = 20.0
"""Default time that a process may take to end after a signal [s]. Slurm itself waits for 30 s."""

PATIENCE = 0.6
"""Share of the grace that a process may use to reach a good moment to end."""

_ANSWER_S = 60.0
"""How long to wait for an answer of the supervisor [s]: it may be waiting for a disk."""


def resume_command(run_dir: Path, processes: int, grace_s: float) -> str:
    """Return the command that resumes a run.

    Args:
        run_dir: The run's directory.
        processes: Processes of the training that ``--nproc`` starts; 1 if another launcher starts each process.
        grace_s: Time that an attempt may take to end after a signal [s].
    """
    flags = f" --nproc {processes}" if processes > 1 else ""
    flags += f" --grace_s {grace_s:g}" if grace_s != GRACE_S else ""
    return as_started(f"./isaaclab.sh -p scripts/train.py --resume {shlex.quote(str(run_dir))}{flags}")


class Attempt:
    """State of a running attempt."""

    def __init__(self, grace_s: float, resumable: bool) -> None:
        """Begin.

        Args:
            grace_s: Time that the attempt may take to end after a signal [s].
            resumable: Whether a state on disk already allows the run to be resumed.
        """
        self._patience_s = PATIENCE * grace_s
        self.status = Status.COMPLETED
        """Status that the attempt ends with if nothing goes wrong from here on."""
        self.error: BaseException | None = None
        """The exception that ended the attempt early."""
        self.resumable = resumable
        """Whether a state on disk allows the run to be resumed."""
        self.begun = False
        """Whether training or scoring has begun. Until then, an error of the request refuses it: nothing is kept."""
        self.asked: signal.Signals | None = None
        """The signal that asked the process to end, if it came within :meth:`signals_deferred`."""
        self._deferring = False

    @property
    def exit_status(self) -> int:
        """Exit status of the process: 2 for an error that the user can fix, else as :func:`exit_status_of` says."""
        return EXIT_USER_ERROR if isinstance(self.error, UserError) else exit_status_of(self.status, self.resumable)

    def begin(self) -> None:
        """Note that training or scoring begins: from now on, every end is kept."""
        self.begun = True

    @contextmanager
    def signals_deferred(self) -> Iterator[None]:
        """Within the context, keep a signal that asks the process to end in :attr:`asked` until a good moment.

        If there is no good moment in time, the signal is raised as an exception.
        """
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def heed(self, ending: signal.Signals) -> None:
        """End at the next good moment. From now on, there is no time limit for it.

        Args:
            ending: The signal; another process of the training may have received it.
        """
        self.asked = self.asked or ending
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def hear(self, ending: signal.Signals) -> None:
        """Handle a signal that asks the process to end.

        Raises:
            KeyboardInterrupt: For Ctrl-C, outside :meth:`signals_deferred` or when the wait for a good moment ran out.
            Terminated: In the same cases, for a signal of the system.
        """
        if self._deferring and self.asked is None:
            self.asked = ending
            signal.setitimer(signal.ITIMER_REAL, self._patience_s)
            return
        raise exception_of(self.asked or ending)

    def leave(self) -> NoReturn:
        """Raise the exception for the signal in :attr:`asked`.

        Raises:
            KeyboardInterrupt: If the user interrupted the process.
            Terminated: If the system asked the process to end.
        """
        assert self.asked is not None
        raise exception_of(self.asked)


class SupervisorLostError(ConnectionError):
    """The supervisor has ended before its worker, because something killed it."""


@dataclass(frozen=True, kw_only=True)
class Begin:
    """A process asks its supervisor to record an attempt or a stand-alone evaluation, and to write its end."""

    journals: dict[Path, str]
    """Journals that the supervisor creates, one per run's directory, with the run of each."""
    attempt: int | None
    """Number of the attempt; ``None`` for a stand-alone evaluation."""
    rank: int = 0
    device: str
    """Device of the work, as in ``--device``; it is metered."""
    grace_s: float = GRACE_S
    """How long the process may take to end after a signal [s]."""
    log: Path
    """File with what the process prints; the supervisor redacts it at the end."""


@dataclass(frozen=True, kw_only=True)
class End:
    """A process says how its attempt ended. The answer is the row that was written."""

    row: AttemptEnded
    exit_status: int


class Link:
    """Sends messages to the supervisor through a pipe that no other process can open, and waits for its answers."""

    def __init__(self, connection: Connection, suspensions: Suspensions) -> None:
        """Use a connection.

        Args:
            connection: Connection to the supervisor.
            suspensions: Where the supervisor notes when this process is stopped.
        """
        self.suspensions = suspensions
        """Intervals in which this process was stopped."""
        self._connection = connection
        self.ended: AttemptEnded | None = None
        """The row of the end, as the supervisor wrote it; it may name another rank's end as the cause."""

    def begin(self, begin: Begin) -> None:
        """Let the supervisor record an attempt. From now on, every end of the attempt is written.

        Raises:
            OSError: If a journal can't be created, or the supervisor has ended.
        """
        self._ask(begin)

    def end(self, row: AttemptEnded, exit_status: int) -> None:
        """Let the supervisor write how the attempt ended.

        Args:
            row: The row of the end.
            exit_status: Exit status of the whole program.

        Raises:
            OSError: If the row can't be written, or the supervisor has ended.
        """
        self.ended = self._ask(End(row=row, exit_status=exit_status))

    def _ask(self, message: Begin | End) -> Any:  # noqa: ANN401 - the answer depends on the message
        """Send a message, and return the answer.

        Raises:
            OSError: If the supervisor can't carry it out, or does not answer.
            SupervisorLostError: If it has ended.
        """
        try:
            self._connection.send(message)
            if not self._connection.poll(_ANSWER_S):
                raise TimeoutError(f"the supervisor does not answer within {_ANSWER_S:g} s")
            answer = self._connection.recv()
        except (EOFError, ConnectionError) as error:
            raise SupervisorLostError(
                "something killed the supervisor of this training, so its end is not recorded: the attempt is lost"
            ) from error
        if isinstance(answer, OSError):
            raise answer
        return answer


@contextmanager
def attempt_life(
    writer: AttemptWriter,
    link: Link,
    begin: Begin,
    peak_gpu_memory_bytes: Callable[[], int | None],
    resumable: bool = False,
) -> Iterator[Attempt]:
    """Let the supervisor record an attempt, run it, and write how it ended before anything else can go wrong.

    :attr:`Attempt.error` holds the exception that ended the attempt early; it is not raised. If the end can't be
    written where it belongs, it is written into the worker's own journal. If that fails, too, an attempt that would
    have ended well ends by this error.

    A :class:`UserError` before :attr:`Attempt.begun` refuses the request. The supervisor then removes the attempt.

    Args:
        writer: Writes into a journal that already holds the attempt's start.
        link: Connection to the supervisor.
        begin: What the supervisor records.
        peak_gpu_memory_bytes: Called at the end.
        resumable: Whether a state on disk already allows the run to be resumed.

    Raises:
        OSError: If the supervisor can't write the attempt. Nothing was done then.
        ConnectionError: If the supervisor has ended.
    """
    try:
        link.begin(begin)
    except OSError as error:
        with suppress(OSError):
            writer.append(writer.end(status_of(error), error, lambda: None))
        raise
    attempt = Attempt(begin.grace_s, resumable)
    with _signals_heard(attempt):
        try:
            writer.beat()
            yield attempt
        except BaseException as error:  # noqa: BLE001 - the ledger and the exit status show every end
            refused = isinstance(error, UserError) and not attempt.begun
            attempt.status, attempt.error = Status.REFUSED if refused else status_of(error), error
        # Nothing may interrupt what follows: no second signal, and no device that fails again.
        for signum in (*ENDING, signal.SIGALRM):
            signal.signal(signum, signal.SIG_IGN)
        row = writer.end(attempt.status, attempt.error, peak_gpu_memory_bytes)
        try:
            link.end(row, attempt.exit_status)
        except ConnectionError:
            raise
        except OSError as error:
            try:
                writer.append(row)
            except OSError:
                if attempt.error is None:
                    attempt.status, attempt.error = status_of(error), error


@contextmanager
def _signals_heard(attempt: Attempt) -> Iterator[None]:
    """Pass the first ending signal, and the alarm that it sets, to an attempt; restore the handlers at the end.

    Later ending signals are ignored as repetitions: schedulers signal every process, and the supervisor forwards its
    own signals.
    """
    heard: set[bool] = set()

    def hear_once(signum: int, frame: FrameType | None) -> None:
        alarm = signum == signal.SIGALRM
        if alarm in heard:
            return
        heard.add(alarm)
        attempt.hear(signal.Signals(signum))

    with handling((*ENDING, signal.SIGALRM), hear_once):
        yield


@contextmanager
def handling(signals: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Handle signals within the context, and then put the handlers back.

    Ignored signals stay ignored, as with nohup. A handler that Python did not set stays, too.

    Args:
        signals: The signals.
        handler: The handler; it may change the handlers itself.
    """
    previous = {each: before for each in signals if (before := signal.getsignal(each)) not in (None, signal.SIG_IGN)}
    for each in previous:
        signal.signal(each, handler)
    try:
        yield
    finally:
        for each, before in previous.items():
            signal.signal(each, before)
