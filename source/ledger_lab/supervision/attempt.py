"""The life of one attempt: it ends with exactly one status, whatever ends it."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from ledger_lab.errors import UserError
from ledger_lab.ledger import AttemptEnded, PhaseWindow, Row, Status
from ledger_lab.ledger.endings import reason_of, status_of
from ledger_lab.meters import PhaseClock, measured_or_none, peak_host_memory_bytes
from ledger_lab.terminal.console import EXIT_USER_ERROR
from ledger_lab.terminal.exit_status import ENDING, exception_of, exit_status_of

GRACE_S = 20.0
"""How long who was asked to end may take where nobody says otherwise [s]. SLURM itself waits for 30 s."""

PATIENCE = 0.6
"""Share of the supervisor's grace that who was asked to end may take to come to a good moment."""


class Attempt:
    """What is known of a running attempt."""

    def __init__(self, append: Callable[[Row], None], clock: PhaseClock, grace_s: float) -> None:
        """Begin.

        Args:
            append: Writes a row.
            clock: Its clock.
            grace_s: How long it may take to end once it was asked to [s].
        """
        self._append = append
        self._clock = clock
        self._patience_s = PATIENCE * grace_s
        self.status = Status.COMPLETED
        """The status if nothing goes wrong from here on."""
        self.error: BaseException | None = None
        """What ended it early."""
        self.iterations: int | None = None
        self.env_steps = 0
        self.resumable = False
        """Whether there is a state on disk that the run can be resumed from."""
        self.asked: signal.Signals | None = None
        """The signal that asked us to end, if one came within :meth:`polite`."""
        self._polite = False

    @property
    def exit_status(self) -> int:
        """Exit status of the process: 2 for what the user can mend, else as :func:`exit_status_of` says."""
        return EXIT_USER_ERROR if isinstance(self.error, UserError) else exit_status_of(self.status, self.resumable)

    @contextmanager
    def polite(self) -> Iterator[None]:
        """Within the context, let a signal that asks us to end wait in :attr:`asked` for a good moment.

        Where none comes in time, it is raised all the same.
        """
        self._polite = True
        try:
            yield
        finally:
            self._polite = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def heed(self, ending: signal.Signals) -> None:
        """Take the good moment to end: whoever asked for that waits as long as it takes from now on.

        Args:
            ending: The signal, which another process of the training may have got.
        """
        self.asked = self.asked or ending
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def hear(self, ending: signal.Signals) -> None:
        """Take a signal that asks us to end.

        Raises:
            KeyboardInterrupt: If there is no better moment, or it was asked for in vain.
            Terminated: The same, for the system's signals.
        """
        if self._polite and self.asked is None:
            self.asked = ending
            signal.setitimer(signal.ITIMER_REAL, self._patience_s)
            return
        raise exception_of(self.asked or ending)

    def leave(self) -> NoReturn:
        """End as we were asked to.

        Raises:
            KeyboardInterrupt: If somebody interrupted us.
            Terminated: If the system asked us to end.
        """
        assert self.asked is not None
        raise exception_of(self.asked)

    def beat(self, figures: Mapping[str, float] | None = None) -> tuple[dict[str, int], int]:
        """Write where the time went since the last beat.

        Args:
            figures: Figures of the training in this time, by the names of :data:`ledger_lab.ledger.FIGURES`.

        Returns:
            Nanoseconds per phase since then, and the attempt's age [ns].
        """
        phase_ns, wall_ns = self._clock.flush()
        figures = figures or {}
        self._append(
            PhaseWindow(
                iteration=self.iterations,
                env_steps=self.env_steps,
                phase_ns=phase_ns,
                wall_ns=wall_ns,
                figures={name: value for name, value in figures.items() if math.isfinite(value)},
                non_finite=[name for name, value in figures.items() if not math.isfinite(value)],
            )
        )
        return phase_ns, wall_ns


@contextmanager
def attempt_life(
    append: Callable[[Row], None],
    clock: PhaseClock,
    peak_gpu_memory_bytes: Callable[[], int | None],
    tell_end: Callable[[AttemptEnded, int], None],
    ended_row: type[AttemptEnded] = AttemptEnded,
    grace_s: float = GRACE_S,
    resumed_env_steps: int | None = None,
) -> Iterator[Attempt]:
    """Run an attempt, and tell its end before anything else can go wrong.

    Nothing is raised: what ended the attempt early is in :attr:`Attempt.error`.

    Args:
        append: Writes a row into a journal that says already that the attempt started.
        clock: The attempt's clock.
        peak_gpu_memory_bytes: Asked in the end.
        tell_end: Writes how it ended; it gets the exit status of the program, too.
        ended_row: Kind of that row.
        grace_s: How long it may take to end once it was asked to [s].
        resumed_env_steps: Environment steps that led to the state that it goes on from, if there is one.
    """
    attempt = Attempt(append, clock, grace_s)
    if resumed_env_steps is not None:
        attempt.env_steps, attempt.resumable = resumed_env_steps, True
    with _signals_heard(attempt):
        try:
            attempt.beat()
            yield attempt
        except BaseException as error:  # noqa: BLE001 - every end is told in the ledger, and then by the exit status
            attempt.status, attempt.error = status_of(error), error
        # From here on nothing may come between: neither a second signal, nor a device that fails once more.
        for signum in (*ENDING, signal.SIGALRM):
            signal.signal(signum, signal.SIG_IGN)
        clock.stop_synchronizing()
        _, wall_ns = attempt.beat()
        end = ended_row(
            status=attempt.status,
            reason=None if attempt.error is None else reason_of(attempt.error),
            wall_ns=wall_ns,
            peak_host_memory_bytes=peak_host_memory_bytes(),
            peak_gpu_memory_bytes=measured_or_none(peak_gpu_memory_bytes),
        )
        tell_end(end, attempt.exit_status)


@contextmanager
def _signals_heard(attempt: Attempt) -> Iterator[None]:
    """Let an attempt hear the first signal that asks us to end, and the alarm that it sets; give them back in the end.

    Later ones say nothing new: schedulers send theirs to every process, and the supervisor passes its own on.
    """
    heard: set[bool] = set()

    def hear_once(signum: int, frame: FrameType | None) -> None:
        alarm = signum == signal.SIGALRM
        if alarm in heard:
            return
        heard.add(alarm)
        attempt.hear(signal.Signals(signum))

    previous = {signum: signal.getsignal(signum) for signum in (*ENDING, signal.SIGALRM)}
    for signum, handler in previous.items():
        if handler is not signal.SIG_IGN:  # nohup keeps its meaning
            signal.signal(signum, hear_once)
    try:
        yield
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)
