"""The supervisor of an attempt: a light process that records how the working process, the worker, ends.

The worker may return, raise an exception, be interrupted, preempted or killed, run out of memory, or hang in shutdown.
In each case, the supervisor writes exactly one row about its end. The supervisor imports neither torch nor Isaac Lab,
so their faults can't end it.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import IO, Any

from ledger_lab.ledger import (
    STATE_FILE,
    AttemptEnded,
    EvaluationEnded,
    Journal,
    ShutdownEnded,
    Status,
    SupervisionStarted,
)
from ledger_lab.ledger.anchors import anchors_of
from ledger_lab.ledger.endings import CollectiveError, reason_of
from ledger_lab.ledger.liveness import identify_process
from ledger_lab.ledger.meters.process import starved_ns
from ledger_lab.ledger.meters.suspension import Suspensions
from ledger_lab.ledger.redaction import redact_files
from ledger_lab.names import visible
from ledger_lab.reports.terminal.console import EXIT_USER_ERROR
from ledger_lab.reports.terminal.exit_status import (
    ENDING,
    OutOfMemoryKills,
    asks_to_resume,
    exit_status_of,
    name_of,
    status_of_exit,
)
from ledger_lab.training.supervision.attempt import Begin, End, resume_command
from ledger_lab.training.supervision.journals import Heartbeat, insist, reserve, withdraw
from ledger_lab.training.supervision.peers import Peers

_SAME_INTERRUPT_S = 1.0
"""Interrupts within this time count as a single interrupt [s]: the terminal and wrapping programs may each forward one
Ctrl-C."""
_WAIT_FOR_PEER_S = 5.0
"""How long to wait for the end of another rank's worker that may have caused a failed collective here [s]."""
_AFTER_PEER_S = 5.0
"""How long the worker may take to end after the worker of another rank has failed [s]."""
_WAKE_UP_TOLERANCE_S = 1.0
"""Longest delay of a wake-up that is not taken for a suspension [s]."""
STACKS = signal.SIGRTMAX
"""Signal after which a worker writes to standard error where each of its threads is, also while it runs native code."""
_STACKS_S, _LOOK_S = 1.0, 0.02
"""Time in which a worker that hangs writes where it hangs, and time between two looks whether it has ended [s]."""


class Supervisor:
    """Watches one worker."""

    def __init__(
        self,
        pid: int,
        connection: Connection,
        started_ns: int,
        suspensions: Suspensions,
        *,
        grace_s: float,
        shutdown_s: float,
        metered: bool = True,
    ) -> None:
        """Begin to watch.

        Args:
            pid: The worker; it leads a process group of its own.
            connection: Connection to the worker.
            started_ns: When the attempt began, on the clock of :func:`time.perf_counter_ns`.
            suspensions: Where to note when the worker is stopped.
            grace_s: See :func:`~ledger_lab.training.supervision.start.run_supervised`.
            shutdown_s: See :func:`~ledger_lab.training.supervision.start.run_supervised`.
            metered: Whether the worker may record an attempt or an evaluation, whose energy counts from now on.
        """
        self._pid, self._connection, self._started_ns = pid, connection, started_ns
        self._suspensions = suspensions
        self._grace_s, self._shutdown_s = grace_s, shutdown_s
        self._signals: list[signal.Signals] = []
        self._asked: signal.Signals | None = None
        self._deadline_s: float | None = None
        self._asked_s = 0.0
        self._killed: str | None = None
        self._peers: Peers | None = None
        self._peer_ended = False
        self._journals: list[Journal] = []
        self._reserved: list[IO[bytes]] = []
        self._begun: Begin | None = None
        self._ended_row: type[AttemptEnded] = AttemptEnded
        self._exit_status: int | None = None
        self._end_is_written = False
        self._refused = False
        self._kills = OutOfMemoryKills()
        with suppress(OSError):  # the worker may have done this itself already, or have ended
            os.setpgid(pid, pid)
        self._heartbeat = Heartbeat(pid, started_ns, _print, metered=metered)

    @property
    def recorded(self) -> Path | None:
        """Directory of the run whose attempt was recorded; ``None`` if there is none, or for another rank than 0."""
        begun = self._begun
        if begun is None or begun.attempt is None or begun.rank or self._refused or not self._journals:
            return None
        return self._journals[0].path.parent

    def run(self) -> int:
        """Supervise the worker to its end.

        Returns:
            The exit status of the worker, as its end is recorded.
        """
        with selectors.DefaultSelector() as selector, noted_signals(self._signals, self._suspend) as woken:
            selector.register(self._connection, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            listening = True
            looked_s = time.monotonic()
            while True:
                patience_s, asleep_ns, waited_ns = self._patience_s(), time.perf_counter_ns(), starved_ns()
                ready = {key.fileobj for key, _ in selector.select(patience_s)}
                self._note_suspension(asleep_ns, patience_s, starved_ns() - waited_ns)
                before_s, looked_s = looked_s, time.monotonic()
                self._postpone_deadline(looked_s - before_s, patience_s)
                if woken in ready:
                    woken.recv(4096)
                if self._connection in ready and not self._answer_messages():
                    selector.unregister(self._connection)
                    listening = False
                self._check_peers()
                self._forward_signals()
                self._sample()
                if self._deadline_s is not None and time.monotonic() > self._deadline_s:
                    overdue = (
                        f"as it did not end within {self._grace_s:g} s"
                        if self._exit_status is None
                        else f"as it did not exit within {self._shutdown_s:g} s after its work had ended"
                    )
                    if self._peer_ended or not self._ended_while_it_dumps_stacks():
                        self._kill(overdue)
                if self._has_ended():
                    if listening:
                        self._answer_messages()
                    # Until the worker is reaped, its processor time can be read, and no other process gets its group.
                    self._sample(at_once=True)
                    self._signal_group(signal.SIGKILL)  # processes that it left behind
                    _, wait_status = os.waitpid(self._pid, 0)
                    return self._conclude(wait_status)

    def _patience_s(self) -> float:
        """Return the time until the next sample or deadline [s].

        It is at most a second, so that :class:`~ledger_lab.ledger.meters.suspension.Suspensions` can tell when this
        process is stopped.
        """
        now_s = time.monotonic()
        waits = [self._heartbeat.wait_s(now_s)]
        waits += [] if self._deadline_s is None else [self._deadline_s - now_s]
        return max(0.0, min(waits))

    def _suspend(self) -> None:
        """Stop the worker and this process; when this process is continued, continue the worker."""
        self._suspensions.begin()
        self._signal_group(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._suspensions.end()  # before the worker goes on and looks at its clock
        self._signal_group(signal.SIGCONT)

    def _note_suspension(self, asleep_ns: int, patience_s: float, waited_ns: int) -> None:
        """Note when the worker was stopped or continued by others, and whether this process was stopped as well.

        Args:
            asleep_ns: When this process began to sleep.
            patience_s: How long it meant to sleep at most [s].
            waited_ns: How long it was awake, but waited for a core of a busy machine [ns].
        """
        with suppress(ChildProcessError):  # the worker has ended
            while changed := os.waitid(os.P_PID, self._pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG):
                if changed.si_code == os.CLD_CONTINUED:
                    self._suspensions.end()
                else:
                    self._suspensions.begin()
        meant_ns, woke_ns = asleep_ns + round(patience_s * 1e9), time.perf_counter_ns() - max(0, waited_ns)
        if woke_ns - meant_ns > _WAKE_UP_TOLERANCE_S * 1e9:
            self._suspensions.add(meant_ns, woke_ns)
        self._suspensions.note_awake()

    def _postpone_deadline(self, passed_s: float, patience_s: float) -> None:
        """Postpone the deadline by the time for which this process was suspended: the worker was suspended, too."""
        if self._deadline_s is not None and passed_s > patience_s + _WAKE_UP_TOLERANCE_S:
            self._deadline_s += passed_s

    def _answer_messages(self) -> bool:
        """Handle the messages that the worker has sent, and answer them.

        Returns:
            Whether the connection is still open.
        """
        while True:
            try:
                if not self._connection.poll():
                    return True
                message = self._connection.recv()
            except (OSError, EOFError):
                return False
            try:
                answer = self._handle(message)
            except OSError as error:
                answer = error
            except Exception as error:  # noqa: BLE001 - no error may end the supervisor
                answer = OSError(reason_of(error))
            with suppress(OSError):  # the worker has ended while it waited
                self._connection.send(answer)

    def _handle(self, message: Begin | End) -> Any:  # noqa: ANN401 - the answer depends on the message
        """Carry out the request of a message, and return the answer."""
        if isinstance(message, Begin):
            return self._begin(message)
        if self._peers is not None and (message.row.reason or "").startswith(CollectiveError.__name__):
            self._peers.look(_WAIT_FOR_PEER_S)  # the end of another rank may be the cause
        return self._write_end(self._ended_row.from_data(message.row.to_data()), message.exit_status)

    def _begin(self, message: Begin) -> None:
        """Begin to record an attempt, or a stand-alone evaluation."""
        self._begun = message
        if message.attempt is None:
            self._ended_row = EvaluationEnded
        self._grace_s = message.grace_s
        for folder, ends in Counter(path.parent for path in message.journals).items():
            self._reserved.append(reserve(folder, ends))
        for path, run_id in message.journals.items():
            journal = Journal(path, self._heartbeat.report_trouble)
            self._journals.append(journal)
            journal.append(
                SupervisionStarted(
                    run_id=run_id,
                    attempt=message.attempt,
                    rank=message.rank,
                    pid=os.getpid(),
                    host=socket.gethostname(),
                    wall_ns=self._wall_ns(),
                    process=identify_process(os.getpid()),
                )
            )
            self._heartbeat.begin(path, run_id, message.attempt, message.rank, message.device)
        if message.attempt is not None and os.environ.get("WORLD_SIZE", "1") != "1":
            self._peers = Peers(self._journals[0].path, message.attempt)

    def _sample(self, *, at_once: bool = False) -> None:
        """Write a sample of host and devices if one is due."""
        if self._heartbeat.beat(at_once=at_once):
            self._kills.look()

    def _forward_signals(self) -> None:
        """Forward ending signals to the worker; kill the worker after a second interrupt."""
        while self._signals:
            signum = self._signals.pop(0)
            self._check_peers()  # if the signal is a consequence of another rank's end, that end was written before
            if self._peer_ended:
                continue
            if self._asked is not None:
                if signum is signal.SIGINT and time.monotonic() > self._asked_s + _SAME_INTERRUPT_S:
                    self._kill("as it was interrupted again")
                continue
            self._asked, self._asked_s = signum, time.monotonic()
            if self._exit_status is None:  # otherwise the deadline of the shutdown holds
                self._deadline_s = time.monotonic() + self._grace_s
            with suppress(ProcessLookupError):
                os.kill(self._pid, signum)

    def _check_peers(self) -> None:
        """End the worker when the worker of another rank has ended; otherwise it could wait for that rank for ever."""
        if self._peers is None or self._asked is not None or self._peer_ended:
            return
        self._peers.look()
        if self._peers.first is None:
            return
        self._peer_ended = True
        if self._exit_status is not None:
            return
        asked_too = self._peers.first.status in ENDING.values()
        self._deadline_s = time.monotonic() + (self._grace_s if asked_too else _AFTER_PEER_S)
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)

    def _ended_while_it_dumps_stacks(self) -> bool:
        """Let a worker that is overdue write where each of its threads is; tell whether it has ended meanwhile."""
        self._deadline_s = None
        with suppress(ProcessLookupError):
            os.kill(self._pid, STACKS)
        until_s = time.monotonic() + _STACKS_S
        while not (ended := self._has_ended()) and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        if not ended:
            where = "" if self._begun is None else f", or in {self._begun.log}"
            _print(f"the process hangs; the stacks of its threads are above{where}")
        return ended

    def _has_ended(self) -> bool:
        """Tell whether the worker has ended; it is not reaped yet."""
        return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _kill(self, reason: str) -> None:
        """Kill the process group of the worker."""
        self._killed, self._deadline_s = reason, None
        self._signal_group(signal.SIGKILL)

    def _signal_group(self, signum: signal.Signals) -> None:
        """Signal the worker and all descendants in its group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signum)

    def _write_end(self, row: AttemptEnded, exit_status: int) -> AttemptEnded:
        """Write the end of the attempt, unless it is written already.

        Returns:
            The row that was written: the given row, or a row that names the end of another rank as the cause.

        Raises:
            OSError: If the row can't be written even after the reserved space is freed.
        """
        if self._exit_status is not None:
            return row
        if self._peers is not None and self._asked is None:
            settled = self._peers.settle(row)
            if settled is not row and self._peers.first is not None:
                refused = self._peers.first.refused
                exit_status = EXIT_USER_ERROR if refused else exit_status_of(settled.status, self._is_resumable())
            row = settled
        for file in self._reserved:
            file.close()
        self._exit_status = exit_status  # final: journals keep rows that can't be written yet
        insist(dict.fromkeys(self._journals, row))
        self._end_is_written, self._refused = True, row.status is Status.REFUSED
        self._deadline_s = time.monotonic() + self._shutdown_s
        return row

    def _conclude(self, wait_status: int) -> int:
        """Write the remaining rows after the worker has ended, and return the exit status."""
        self._deadline_s = None
        self._sample(at_once=True)  # with the energy of the shutdown
        self._heartbeat.close_devices()
        code = os.waitstatus_to_exitcode(wait_status)
        status, reason = status_of_exit(code, self._asked, self._killed, self._kills.happened())
        end = self._ended_row(
            status=status,
            reason=reason,
            wall_ns=self._wall_ns(),
            peak_host_memory_bytes=None,
            peak_gpu_memory_bytes=None,
        )
        begun = self._begun
        if begun is None or not self._journals:
            exit_status = 128 - code if code < 0 else code
            if status in ENDING.values():
                exit_status = exit_status_of(status, self._is_resumable())
            if code < 0 and status not in ENDING.values():
                _print(f"{status.replace('_', ' ')}: {reason}")
            return exit_status
        fault = name_of(-code) if code < 0 else None
        self._redact_log(begun.log)
        try:
            if self._exit_status is None:
                ended = self._write_end(end, exit_status_of(status, self._is_resumable()))
                who = f"rank {begun.rank}: " if begun.rank else ""
                _print(f"{who}{ended.status.replace('_', ' ')}: {ended.reason}")
            elif self._killed is not None:
                _print(f"the process was killed while it shut down, {self._killed}")
            elif fault is not None:
                _print(f"{fault} ended the process while it shut down, after its work had ended")
            if not self._refused and not begun.rank:
                self._print_resume_command()
            self._heartbeat.close_journals()
            if self._refused:
                if self._peers is not None:
                    self._peers.wait_for_all(self._grace_s)  # they must see why, before it is removed
                self._withdraw(begun)
                return EXIT_USER_ERROR
            anchors = {journal: anchors_of(journal.path.parent, but=[journal.path]) for journal in self._journals}
            shutdown = ShutdownEnded(
                wall_ns=self._wall_ns(),  # what takes time is done before, so that it is billed
                exit_code=code if code >= 0 else None,
                signal=fault,
                overdue=self._killed is not None,
            )
            insist({journal: replace(shutdown, anchors=found) for journal, found in anchors.items()})
            for journal in self._journals:
                journal.close()
        except OSError as error:
            if not self._end_is_written:
                _print(f"the end could not be written: {error}; unless the worker wrote it, the attempt counts as lost")
                return 1
            _print(f"the end of the shutdown could not be written: {error}")
        return 1 if self._exit_status is None else self._exit_status

    def _withdraw(self, begun: Begin) -> None:
        """Remove what a refused attempt or evaluation has written.

        Each rank removes its own files. The first attempt's directory is removed with the journal of the last rank.
        """
        try:
            for journal in self._journals:
                journal.close()
                withdraw(journal.path, begun.log, whole=begun.attempt == 1)
        except OSError as error:
            _print(f"what the refused request has written could not be removed: {error}")

    def _redact_log(self, log: Path) -> None:
        """Redact the log of the worker, now that no process writes to it."""
        try:
            redact_files([log] if log.exists() else [])
        except OSError as error:
            _print(f"{log} may hold secrets, because it could not be redacted: {error}")

    def _is_resumable(self) -> bool:
        """Tell whether the run can be resumed. A run that was being resumed always can."""
        return asks_to_resume(sys.argv[1:]) or self._has_state()

    def _has_state(self) -> bool:
        """Tell whether the training has saved a state that it can be resumed from."""
        saved = [(journal.path.parent / STATE_FILE).is_file() for journal in self._journals]
        return self._ended_row is AttemptEnded and bool(saved) and all(saved)

    def _print_resume_command(self) -> None:
        """Print the command that resumes the run if there is a state."""
        if not self._has_state():
            return
        size = os.environ.get("WORLD_SIZE", "1")
        processes = int(size) if os.environ.get("LOCAL_WORLD_SIZE") == size else 1
        _print(f"resume it: {resume_command(self._journals[0].path.parent, processes, self._grace_s)}")

    def _wall_ns(self) -> int:
        """Return the age of the attempt [ns]."""
        return time.perf_counter_ns() - self._started_ns


def _print(text: str) -> None:
    """Print one line for the user, unless standard error is closed."""
    with suppress(OSError):
        print(f"supervisor: {visible(text)}", file=sys.stderr, flush=True)


@contextmanager
def noted_signals(noted: list[signal.Signals], suspend: Callable[[], None]) -> Iterator[socket.socket]:
    """Record signals, including blocked signals, instead of ending. Each signal makes the socket readable.

    Afterwards, ending signals are ignored, so that the process can exit with its true status.

    Args:
        noted: List that signals are appended to.
        suspend: Called on Ctrl-Z. It suspends the worker and this process, and returns when this process is continued.

    Yields:
        The socket.
    """

    def note(signum: int, frame: FrameType | None) -> None:
        noted.append(signal.Signals(signum))

    woken, waker = socket.socketpair()
    waker.setblocking(False)
    before = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    handlers: dict[signal.Signals, Any] = {signum: note for signum in ENDING}
    handlers |= {signal.SIGTSTP: lambda signum, frame: suspend(), signal.SIGCHLD: lambda signum, frame: None}
    previous = {
        signum: signal.signal(signum, handler)
        for signum, handler in handlers.items()
        if signal.getsignal(signum) is not signal.SIG_IGN  # nohup keeps its meaning
    }
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    try:
        yield woken
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, signal.SIG_IGN if signum in ENDING else handler)
        signal.set_wakeup_fd(before)
        woken.close()
        waker.close()
