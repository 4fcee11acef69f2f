"""The life of one attempt: it ends with exactly one status, whatever ends it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from ledger_lab.ledger import AttemptEnded, PhaseWindow, Row, Status
from ledger_lab.meters import PhaseClock, peak_host_memory_bytes

EXIT_STATUS = {
    Status.COMPLETED: 0,
    Status.TARGET_REACHED: 0,
    Status.INTERRUPTED: 130,
    Status.PREEMPTED: 143,
}
"""Exit statuses of the process; every other status exits with 1."""


class Terminated(BaseException):
    """The system asked the process to end (SIGTERM)."""


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

    def beat(self) -> tuple[dict[str, int], int]:
        """Write where the time went since the last beat.

        Returns:
            Nanoseconds per phase since then, and the attempt's age [ns].
        """
        phase_ns, wall_ns = self._clock.flush()
        self._append(
            PhaseWindow(iteration=self.iterations, env_steps=self.env_steps, phase_ns=phase_ns, wall_ns=wall_ns)
        )
        return phase_ns, wall_ns


@contextmanager
def attempt_life(
    append: Callable[[Row], None],
    clock: PhaseClock,
    peak_gpu_memory_bytes: Callable[[], int | None],
    ended_row: type[AttemptEnded] = AttemptEnded,
) -> Iterator[Attempt]:
    """Run an attempt, and write its end before anything else can go wrong.

    Nothing is raised: what ended the attempt early is in :attr:`Attempt.error`.

    Args:
        append: Writes a row into a journal that says already that the attempt started.
        clock: The attempt's clock.
        peak_gpu_memory_bytes: Asked in the end.
        ended_row: Kind of the last row.
    """
    attempt = Attempt(append, clock)
    with _sigterm_raises():
        attempt.beat()
        try:
            yield attempt
        except BaseException as error:  # noqa: BLE001 - every end is told in the ledger, and then by the exit status
            attempt.status, attempt.error = status_of(error), error
        _, wall_ns = attempt.beat()
        append(
            ended_row(
                status=attempt.status,
                reason=None if attempt.error is None else _reason(attempt.error),
                wall_ns=wall_ns,
                peak_host_memory_bytes=peak_host_memory_bytes(),
                peak_gpu_memory_bytes=peak_gpu_memory_bytes(),
            )
        )


def status_of(error: BaseException) -> Status:
    """Return the status of an attempt that an exception ended."""
    if isinstance(error, KeyboardInterrupt):
        return Status.INTERRUPTED
    if isinstance(error, Terminated):
        return Status.PREEMPTED
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return Status.OUT_OF_MEMORY
    if isinstance(error, ValueError | FloatingPointError) and "nan" in str(error).lower().split():
        return Status.NON_FINITE
    return Status.CRASHED


def _reason(error: BaseException) -> str:
    """Return an exception in one line."""
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Turn SIGTERM into an exception at the next bytecode, as Python does with Ctrl-C."""

    def raise_terminated(signum: int, frame: FrameType | None) -> None:
        raise Terminated("SIGTERM")

    previous = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
