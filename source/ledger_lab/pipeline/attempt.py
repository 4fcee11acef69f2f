"""The life of one attempt: it ends with exactly one status, whatever ends it."""

from __future__ import annotations

import errno
import math
import re
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from ledger_lab.errors import UserError
from ledger_lab.ledger import AttemptEnded, PhaseWindow, Row, Status
from ledger_lab.meters import PhaseClock, peak_host_memory_bytes
from ledger_lab.pipeline.console import EXIT_USER_ERROR
from ledger_lab.pipeline.verdict_of_exit import ENDING, exit_status_of

_OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|out of memory|Failed to allocate \d+ bytes|can(?:'t|not) allocate memory|std::bad_alloc",
    re.IGNORECASE,
)
"""What torch, CUDA, Warp and the C library say when memory runs out."""

_NON_FINITE = re.compile(r"\bnan\b", re.IGNORECASE)
"""What RSL-RL and torch's distributions say of values that are not numbers."""

_NAN_POLICY = re.compile(r"normal expects all elements of std >= 0\.0")
"""What torch says when a policy's noise has become NaN."""


_LONGEST_REASON = 1000
"""Characters of an error that are kept: some hold whole tensors."""


class Terminated(BaseException):
    """The system asked the process to end (SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU)."""


class Attempt:
    """What is known of a running attempt."""

    def __init__(self, append: Callable[[Row], None], clock: PhaseClock) -> None:
        """Begin.

        Args:
            append: Writes a row.
            clock: Its clock.
        """
        self._append = append
        self._clock = clock
        self.status = Status.COMPLETED
        """The status if nothing goes wrong from here on."""
        self.error: BaseException | None = None
        """What ended it early."""
        self.iterations: int | None = None
        self.env_steps = 0

    @property
    def exit_status(self) -> int:
        """Exit status of the process: 0 if all work was done, 2 for what the user can mend, 128 + signal, else 1."""
        return EXIT_USER_ERROR if isinstance(self.error, UserError) else exit_status_of(self.status)

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
) -> Iterator[Attempt]:
    """Run an attempt, and tell its end before anything else can go wrong.

    Nothing is raised: what ended the attempt early is in :attr:`Attempt.error`.

    Args:
        append: Writes a row into a journal that says already that the attempt started.
        clock: The attempt's clock.
        peak_gpu_memory_bytes: Asked in the end.
        tell_end: Writes how it ended; it gets the exit status of the program, too.
        ended_row: Kind of that row.
    """
    attempt = Attempt(append, clock)
    with _signals_raise():
        try:
            attempt.beat()
            yield attempt
        except BaseException as error:  # noqa: BLE001 - every end is told in the ledger, and then by the exit status
            attempt.status, attempt.error = status_of(error), error
        # From here on nothing may come between: neither a second signal, nor a device that fails once more.
        for signum in ENDING:
            signal.signal(signum, signal.SIG_IGN)
        clock.stop_synchronizing()
        _, wall_ns = attempt.beat()
        end = ended_row(
            status=attempt.status,
            reason=None if attempt.error is None else _reason(attempt.error),
            wall_ns=wall_ns,
            peak_host_memory_bytes=peak_host_memory_bytes(),
            peak_gpu_memory_bytes=_asked(peak_gpu_memory_bytes),
        )
        tell_end(end, attempt.exit_status)


def _asked(measure: Callable[[], int | None]) -> int | None:
    """Return a measurement, or ``None`` where the device can't be asked any more."""
    try:
        return measure()
    except Exception:  # noqa: BLE001 - whatever a broken device raises, the figure is unknown
        traceback.print_exc()
        return None


def status_of(error: BaseException) -> Status:
    """Return the status of an attempt that an exception ended."""
    if isinstance(error, KeyboardInterrupt):
        return Status.INTERRUPTED
    if isinstance(error, Terminated):
        return Status.PREEMPTED
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Status.DISK_FULL
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(f"{type(error).__name__}: {error}"):
        return Status.OUT_OF_MEMORY
    if isinstance(error, FloatingPointError) or (isinstance(error, ValueError) and _NON_FINITE.search(str(error))):
        return Status.NON_FINITE
    if isinstance(error, RuntimeError) and _NAN_POLICY.search(str(error)):
        return Status.NON_FINITE
    return Status.CRASHED


def _reason(error: BaseException) -> str:
    """Return an exception in one line that any journal takes."""
    first = next(iter(str(error).strip().splitlines()), "")
    line = f"{type(error).__name__}: {first}" if first else type(error).__name__
    if len(line) > _LONGEST_REASON:
        line = line[:_LONGEST_REASON] + " …"
    return line.encode(errors="backslashreplace").decode()  # names of files may hold bytes that are no text


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Turn the first signal that asks us to end into an exception at the next bytecode; give them all back in the end.

    Later ones say nothing new: schedulers send theirs to every process, and the supervisor passes its own on.
    """
    raised = False

    def raise_once(signum: int, frame: FrameType | None) -> None:
        nonlocal raised
        if raised:
            return
        raised = True
        ending = signal.Signals(signum)
        raise (KeyboardInterrupt if ENDING[ending] is Status.INTERRUPTED else Terminated)(ending.name)

    previous = {signum: signal.getsignal(signum) for signum in ENDING}
    for signum, handler in previous.items():
        if handler is not signal.SIG_IGN:  # nohup keeps its meaning
            signal.signal(signum, raise_once)
    try:
        yield
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)
