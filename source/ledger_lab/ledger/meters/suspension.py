"""Times in which a process was stopped, so that they count for no phase of its work.

Ctrl-Z and SIGSTOP stop a process; a container can be frozen. A process cannot measure its own stop: by its clock, the
work in progress just took longer. The kernel tells its supervisor when it stops and continues. If the supervisor was
stopped, too, its sleep takes longer than the requested time.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable

_NS = 1_000_000_000

_MOST_INTERVALS = 64
"""Number of intervals that are kept; a window of a phase rarely contains more than one."""

_AWAKE, _STOPPED_AT, _COUNT, _FIRST = 0, 1, 2, 3
"""Words of the shared memory: when the supervisor was last awake; when the worker was stopped, or 0; the number of
intervals so far; and the first of the intervals, each with its start and its end."""

_FRESH_NS = 3 * _NS // 2
"""A supervisor that was awake within this time is not stopped [ns]. It wakes up every second."""

_PATIENCE_NS = _NS // 2
"""How long the worker waits for the supervisor to note the end of a stop of both [ns]."""

_LOOK_AGAIN_S = 0.001

_TOLERANCE_NS = _NS // 10
"""How long the worker may still run after the supervisor has noted its stop [ns]."""


class Suspensions:
    """Intervals in which the worker was stopped, in memory that it shares with its supervisor.

    Create it before the fork. The supervisor writes, the worker reads. All times are on the clock of
    :func:`time.perf_counter_ns`, which is the same in all processes of a machine.
    """

    def __init__(
        self, clock_ns: Callable[[], int] = time.perf_counter_ns, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Begin without an interval.

        Args:
            clock_ns: Monotonic clock [ns].
            sleep: Waits for some seconds.
        """
        self._clock_ns, self._sleep = clock_ns, sleep
        self._words = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")
        self._words[_AWAKE] = clock_ns()
        self._given_up_on_ns = 0
        """When the supervisor was last awake, if the worker has waited in vain for it since."""

    def begin(self) -> None:
        """Note that the worker is stopped now, unless it was stopped already."""
        self._words[_STOPPED_AT] = self._words[_STOPPED_AT] or self._clock_ns()

    def end(self) -> None:
        """Note that the worker goes on now, if it was stopped."""
        if self._words[_STOPPED_AT]:
            self.add(self._words[_STOPPED_AT], self._clock_ns())
            self._words[_STOPPED_AT] = 0

    def add(self, start_ns: int, end_ns: int) -> None:
        """Note an interval in which the worker was stopped. A part that was noted before does not count twice.

        Args:
            start_ns: Its start.
            end_ns: Its end.
        """
        count = self._words[_COUNT]
        if count:
            start_ns = max(start_ns, self._words[self._place(count - 1) + 1])
        if end_ns > start_ns:
            place = self._place(count)
            self._words[place], self._words[place + 1] = start_ns, end_ns
            self._words[_COUNT] = count + 1

    def note_awake(self) -> None:
        """Note that the supervisor is awake. Call it after the intervals in which it was stopped are noted."""
        self._words[_AWAKE] = self._clock_ns()

    def suspended_ns(self, since_ns: int) -> int:
        """Return how long the worker was stopped since a time [ns].

        If the supervisor has not noted the end of a stop yet, this waits for it, usually some milliseconds.

        Args:
            since_ns: The time. The worker was not stopped then. An interval that began just before it, because the
                supervisor noted the stop before it happened, counts from this time; earlier intervals do not count.
        """
        self._wait_for_supervisor()
        count = self._words[_COUNT]
        places = map(self._place, range(max(0, count - _MOST_INTERVALS), count))
        intervals = [(self._words[place], self._words[place + 1]) for place in places]
        return sum(
            end_ns - max(start_ns, since_ns)
            for start_ns, end_ns in intervals
            if start_ns >= since_ns - _TOLERANCE_NS and end_ns > since_ns
        )

    def _wait_for_supervisor(self) -> None:
        """Wait until the supervisor is awake and has noted that the worker goes on, but not for long, and not again."""
        until_ns = self._clock_ns() + _PATIENCE_NS
        while self._words[_STOPPED_AT] or self._clock_ns() - self._words[_AWAKE] > _FRESH_NS:
            awake_ns = self._words[_AWAKE]
            if awake_ns == self._given_up_on_ns:
                return
            if self._clock_ns() > until_ns:
                self._given_up_on_ns = awake_ns
                return
            self._sleep(_LOOK_AGAIN_S)

    @staticmethod
    def _place(number: int) -> int:
        """Return the position of an interval by its number, from 0."""
        return _FIRST + 2 * (number % _MOST_INTERVALS)
