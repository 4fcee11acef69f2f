"""Times of a device: marks between the kernels of its queue, read later, so that no window waits for the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

_LATE_NS = 50_000
"""How much later than the host a device may finish an interval without counting as its bound [ns]. An idle device
starts a kernel up to about 20 µs after its launch."""


class DeviceTimer(Protocol):
    """A device that executes the work of a queue in order, and marks moments in it."""

    def mark(self) -> object | None:
        """Put a mark behind the queued work, without waiting for it.

        Returns:
            The mark; ``None`` while the device records a graph, because a mark would become a part of the graph.
        """

    def wait(self, mark: object) -> None:
        """Wait until the device has passed a mark."""

    def elapsed_ns(self, first: object, last: object) -> int:
        """Return the device's time between two marks that it has passed [ns]."""


class Interval[Owner](NamedTuple):
    """A part of the wall-clock time, between two boundaries."""

    owner: Owner
    """What the time counts for."""
    passed_ns: int
    """Time between the device's passing of the two boundaries [ns]."""
    device_bound: bool
    """Whether the device finished the interval later than the host left it, so that the device determined its length.
    If not, the host determined it by launching the work, or the host waited for the device within the interval."""


class _Boundary[Owner](NamedTuple):
    """The end of an interval."""

    owner: Owner
    """What the interval counts for."""
    left_ns: int
    """When the host reached the boundary, on the host's clock [ns]."""
    mark: object | None
    """The boundary in the device's queue; ``None`` if the device recorded a graph."""


class DeviceTimeline[Owner]:
    """Divides wall-clock time by the moments at which a device passes the boundaries between intervals.

    The device passes a boundary when it has finished everything that was launched before it. The moments of passing
    therefore divide wall-clock time without gaps, as the moments on the host do. An idle device passes a boundary when
    the host reaches it. A busy device passes it later, by the length of its queue.

    Host and device have different clocks. They are compared when the device is idle: at the start, and after each
    :meth:`settle`, which waits for the last mark. There, both time lines meet, so the intervals sum to the host's
    wall-clock time exactly.
    """

    def __init__(self, timer: DeviceTimer, clock_ns: Callable[[], int]) -> None:
        """Wait until the device is idle, and begin.

        Args:
            timer: The device.
            clock_ns: The host's monotonic clock [ns].
        """
        self._timer, self._clock_ns = timer, clock_ns
        self._boundaries: list[_Boundary[Owner]] = []
        if (mark := timer.mark()) is not None:
            timer.wait(mark)
        self._settled_ns = self._left_ns = clock_ns()
        self._compare_clocks()

    @property
    def settled_ns(self) -> int:
        """End of the intervals that have been returned, on the host's clock [ns]."""
        return self._settled_ns

    def add(self, owner: Owner) -> None:
        """End an interval here, without waiting for the device. The next one begins.

        Args:
            owner: What the time since the last boundary counts for.
        """
        self._boundaries.append(_Boundary(owner, self._clock_ns(), self._timer.mark()))

    def settle(self) -> list[Interval[Owner]]:
        """Wait for the device, and return the intervals since the last that were returned.

        Call it at a boundary.

        Returns:
            Intervals whose times sum exactly to the host's time since then.
        """
        marks = [boundary.mark for boundary in self._boundaries if boundary.mark is not None]
        if marks:
            self._timer.wait(marks[-1])
        now_ns = self._clock_ns()
        intervals = self._divide(self._boundaries, now_ns)
        self._boundaries, self._left_ns = [], now_ns
        self._compare_clocks()
        return intervals

    def give_up(self) -> list[Interval[Owner]]:
        """Return the remaining intervals by the host's clock alone, because the device may be lost.

        The time since the last boundary is not among them. Use the timeline no more.
        """
        found = []
        for boundary in self._boundaries:
            found.append(Interval(boundary.owner, max(boundary.left_ns - self._settled_ns, 0), False))
            self._settled_ns = max(boundary.left_ns, self._settled_ns)
        self._boundaries = []
        return found

    def _compare_clocks(self) -> None:
        """Compare the clocks; the device is idle, so it passes the mark at once."""
        self._anchor_ns = self._clock_ns()
        self._anchor = self._timer.mark()

    def _divide(self, boundaries: list[_Boundary[Owner]], now_ns: int) -> list[Interval[Owner]]:
        """Return the intervals that some boundaries end.

        Args:
            boundaries: The boundaries. The device has passed them.
            now_ns: The present, when the last of the intervals ends.
        """
        passed_ns: list[int | None] = [None] * len(boundaries)
        if (anchor := self._anchor) is not None:
            elapsed_ns, anchor_ns = self._timer.elapsed_ns, self._anchor_ns
            # Clocks and launches are not exact, but no device passes a mark before the host has put it there.
            passed_ns = [
                None if mark is None else min(max(anchor_ns + elapsed_ns(anchor, mark), left_ns), now_ns)
                for _, left_ns, mark in boundaries
            ]
        left_ns = [boundary.left_ns for boundary in boundaries]
        ends_ns = _filled(self._settled_ns, self._left_ns, left_ns, passed_ns)
        if ends_ns:
            ends_ns[-1] = now_ns
        found = []
        for boundary, ends_at_ns, passed_at_ns in zip(boundaries, ends_ns, passed_ns, strict=True):
            ends_at_ns = max(ends_at_ns, self._settled_ns)
            late = passed_at_ns is not None and passed_at_ns - boundary.left_ns > _LATE_NS
            found.append(Interval(boundary.owner, ends_at_ns - self._settled_ns, late))
            self._settled_ns = ends_at_ns
        return found


def _filled(device_ns: int, host_ns: int, left_ns: list[int], passed_ns: list[int | None]) -> list[int]:
    """Return the moments at which a device passed the boundaries, with estimates where there was no mark.

    Between two marks, the device's time is divided like the host's.

    Args:
        device_ns: When the device passed the boundary before these.
        host_ns: When the host reached it.
        left_ns: When the host reached these boundaries.
        passed_ns: When the device passed them; ``None`` without a mark.
    """
    ends_ns: list[int] = []
    for place, passed in enumerate(passed_ns):
        if passed is None:
            continue
        on_host_ns, on_device_ns = left_ns[place] - host_ns, passed - device_ns
        ends_ns += [
            device_ns + (on_device_ns * (at - host_ns) // on_host_ns if on_host_ns > 0 else 0)
            for at in left_ns[len(ends_ns) : place]
        ]
        ends_ns.append(passed)
        device_ns, host_ns = passed, left_ns[place]
    return ends_ns + left_ns[len(ends_ns) :]
