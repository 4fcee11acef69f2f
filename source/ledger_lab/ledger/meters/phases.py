"""Phases: the closed list of places where wall-clock time goes, and the clocks of host and device that measure them.

A device is timed by marks between the kernels of its queue, which are read later, so that no window waits for it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

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


class Phase(StrEnum):
    """Where wall-clock time goes."""

    STARTUP = "startup"
    """Imports, app launch, scene creation, first reset."""
    COMPILE = "compile"
    """Warp module build and load, CUDA-graph capture, torch.compile warm-up."""
    SIMULATE = "simulate"
    """The physics engine inside ``env.step``."""
    MANAGE = "manage"
    """The rest of ``env.step``: actions, observations, rewards, terminations, resets, commands."""
    INFER = "infer"
    """Forward passes of policy and value function in the rollout, values after time-outs, and storing the transition
    of the rollout."""
    REPLAY_WRITE = "replay_write"
    """Storing transitions in a replay memory."""
    RETURNS = "returns"
    """Values of the last observations of the rollout, returns and advantages, and their normalization."""
    REPLAY_SAMPLE = "replay_sample"
    """Drawing batches from a replay memory."""
    LEARN = "learn"
    """Minibatches: arranging them, and sampling them from the last rollout; forward, backward, optimizer."""
    SYNCHRONIZE = "synchronize"
    """Collectives between processes."""
    TRANSFER = "transfer"
    """Copies between host and device. If environment and agent share a device, there are hardly any, so only trainers
    of other frameworks use this phase."""
    EVALUATE = "evaluate"
    """Scoring policies on held-out episodes."""
    LOG = "log"
    """Statistics, TensorBoard, progress and the ledger itself."""
    CHECKPOINT = "checkpoint"
    """Saving and hashing policies."""
    RESTART = "restart"
    """Cost of interruptions: restarting until training continues, and the iterations of an attempt after its last saved
    state, which are trained again."""
    SUSPENDED = "suspended"
    """Time in which the process was stopped, by Ctrl-Z, by SIGSTOP or by a frozen container. It is a part of the
    wall-clock time and of the cost."""
    SHUTDOWN = "shutdown"
    """Closing the simulation, and the time from the end row of an attempt until its processes have exited."""
    UNATTRIBUTED = "unattributed"
    """Time outside of all windows."""


TRAINING_PHASES = frozenset(Phase) - {
    Phase.STARTUP,
    Phase.COMPILE,
    Phase.EVALUATE,
    Phase.RESTART,
    Phase.SUSPENDED,
    Phase.SHUTDOWN,
}
"""The phases whose sum is the denominator of training throughput."""


LOOP_PHASES = TRAINING_PHASES | {Phase.EVALUATE}
"""The phases whose sum is the wall-clock time of the training loop: the training phases and the scoring."""


SHARED_PHASES = frozenset({Phase.SIMULATE, Phase.MANAGE})
"""The phases of ``env.step``, in which training and held-out slots advance together."""


_SHORTEST_SUSPENSION_NS = 100_000_000
"""Time without a boundary from which on the clock asks whether the process was suspended [ns]. Asking takes longer than
most windows."""

type _Owner = tuple[Phase, int, int, int]
"""Phase of a window, the held-out slots that take part, all slots, and how long the process was suspended [ns]."""


class PhaseClock:
    """Divides the wall-clock time of a process into phases that exclude each other and sum to it exactly.

    Windows nest: time inside an inner window counts only for the inner phase. Time outside of all windows counts for
    the :attr:`base` phase. All figures are integers in nanoseconds.
    """

    def __init__(
        self,
        started_ns: int,
        *,
        base: Phase = Phase.STARTUP,
        synchronize: Callable[[], None] | None = None,
        suspended_ns: Callable[[int], int] = lambda since_ns: 0,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """Start the clock.

        Args:
            started_ns: Start of the measured process, on the scale of ``clock_ns``.
            base: Phase of the time outside of all windows, until :meth:`set_base` changes it.
            synchronize: Called at every boundary, so that work queued on a device counts for the window that queued it.
                ``None`` measures only the host. :meth:`follow` measures a device without waiting at boundaries.
            suspended_ns: Returns how long the process was suspended since a time of ``clock_ns`` [ns]. This time counts
                for :attr:`Phase.SUSPENDED`, and not for the open window.
            clock_ns: Monotonic clock [ns].
        """
        self._started_ns = self._mark_ns = self._boundary_ns = started_ns
        self._stack: list[Phase] = [base]
        self._spent_ns: dict[Phase, int] = dict.fromkeys(Phase, 0)
        self._synchronize = synchronize
        self._suspended_ns = suspended_ns
        self._clock_ns = clock_ns
        self._held_out, self._slots = 0, 1
        self._timeline: DeviceTimeline[_Owner] | None = None
        self._device_bound_ns: dict[Phase, int] | None = None

    @property
    def base(self) -> Phase:
        """Phase of the time outside of all windows."""
        return self._stack[0]

    def set_base(self, phase: Phase) -> None:
        """Change the phase of the time outside of all windows.

        Args:
            phase: The phase.

        Raises:
            RuntimeError: If a window is open.
        """
        if len(self._stack) != 1:
            raise RuntimeError(f"cannot change the base phase inside the window {self._stack[-1]!r}")
        self._charge()
        self._stack[0] = phase

    def follow(self, timer: DeviceTimer) -> None:
        """From now on, measure when a device passes each boundary, instead of when the host does.

        The clock waits for the device here, and whenever its times are read: at each :meth:`flush` and :meth:`settle`.

        Args:
            timer: The device. It must execute in order all the work that the windows launch.
        """
        self._charge()
        self._timeline = DeviceTimeline(timer, self._clock_ns)
        self._device_bound_ns = {}
        self._count(self._stack[-1], self._held_out, self._slots, 0, self._timeline.settled_ns - self._mark_ns)
        self._mark_ns = self._boundary_ns = self._timeline.settled_ns

    def settle(self) -> None:
        """Wait for the device that the clock follows, if it follows one, and read the device's times.

        If the process is suspended while it waits here, this time counts for the innermost window.
        """
        if self._timeline is not None:
            self._charge()
            self._take(self._timeline.settle(), self._timeline.settled_ns)
            self._boundary_ns = self._mark_ns

    def unwind(self, phase: Phase) -> None:
        """Close all windows that an exception left open, measure only the host, and count time for a phase.

        Args:
            phase: The phase.
        """
        self.measure_host_only()
        self._charge()
        self._stack = [phase]

    def share(self, held_out: int, slots: int) -> None:
        """From now on, count the held-out slots' share of :data:`SHARED_PHASES` as evaluation.

        Args:
            held_out: Number of held-out slots.
            slots: Number of all slots.
        """
        if (held_out, slots) != (self._held_out, self._slots):
            self._charge()
            self._held_out, self._slots = held_out, slots

    def open(self, phase: Phase) -> None:
        """Open a window. The windows of :meth:`window` and :meth:`wrap` close by themselves."""
        self._charge()
        self._stack.append(phase)

    def close(self) -> None:
        """Close the innermost window.

        Raises:
            RuntimeError: If none is open.
        """
        if len(self._stack) == 1:
            raise RuntimeError("no phase window is open")
        self._charge()
        self._stack.pop()

    @contextmanager
    def window(self, phase: Phase) -> Iterator[None]:
        """Count the time inside for a phase."""
        self.open(phase)
        try:
            yield
        finally:
            self.close()

    def announce(self, opened: Callable[[Phase], None], closed: Callable[[], None]) -> None:
        """Call listeners for every window that opens or closes from now on.

        Call this before anything is wrapped or instrumented. A clock without listeners has no overhead from it.

        Args:
            opened: Called with the phase when its window has opened.
            closed: Called before the innermost window closes.
        """
        enter, leave = self.open, self.close

        def open_aloud(phase: Phase) -> None:
            enter(phase)
            opened(phase)

        def close_aloud() -> None:
            closed()
            leave()

        self.open, self.close = open_aloud, close_aloud  # type: ignore[method-assign]

    def wrap(self, function: Callable[..., Any], phase: Phase) -> Callable[..., Any]:
        """Return a function whose time counts for a phase."""
        enter, leave = self.open, self.close

        @functools.wraps(function)
        def metered(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through whatever the function takes
            enter(phase)
            try:
                return function(*args, **kwargs)
            finally:
                leave()

        return metered

    def instrument(self, owner: object, name: str, phase: Phase) -> None:
        """Replace a method of one object by a metered version.

        Args:
            owner: The object.
            name: Name of the method.
            phase: Phase its time counts for.

        Raises:
            AttributeError: If the object has no such method, because its library has changed.
        """
        setattr(owner, name, self.wrap(getattr(owner, name), phase))

    def measure_host_only(self) -> None:
        """Measure only the host from now on, because a failed device can neither be waited for nor asked.

        Times that have not been read from the device are those of the host. To have them read, call :meth:`settle`
        before.
        """
        self._synchronize = None
        if self._timeline is not None:
            self._take(self._timeline.give_up(), self._timeline.settled_ns)
            self._timeline = None

    def wall_ns(self) -> int:
        """Return the time since the process started [ns]."""
        return self._clock_ns() - self._started_ns

    def flush(self) -> tuple[dict[str, int], int]:
        """Return and reset the times since the last flush.

        Returns:
            Nanoseconds per phase, without phases that took no time, and the wall-clock time since the process started
            [ns]. Over all flushes, the phases sum exactly to the wall-clock time.
        """
        if self._timeline is None:
            self._charge()
        self.settle()
        spent = {str(phase): spent_ns for phase, spent_ns in self._spent_ns.items() if spent_ns}
        self._spent_ns = dict.fromkeys(Phase, 0)
        return spent, self._mark_ns - self._started_ns

    def flush_device_bound(self) -> dict[str, int] | None:
        """Return and reset the time in which the device determined the length of windows. Call it after :meth:`flush`.

        Returns:
            Nanoseconds per phase of the intervals that the device finished after the host had left them. In the rest of
            a phase, the host determined the length by launching the work, or it waited for the device. ``None`` if the
            clock has followed no device since the last call.
        """
        found = self._device_bound_ns
        self._device_bound_ns = None if self._timeline is None else {}
        return None if found is None else {str(phase): bound_ns for phase, bound_ns in found.items() if bound_ns}

    def _charge(self) -> None:
        """Count the time since the last boundary for the innermost window, now or when the device's time is read."""
        if self._synchronize is not None:
            self._synchronize()
        before_ns, now_ns, suspended_ns = self._boundary_ns, self._clock_ns(), 0
        if now_ns - before_ns >= _SHORTEST_SUSPENSION_NS:
            suspended_ns = self._suspended_ns(before_ns)
            now_ns = self._clock_ns()  # the question may have waited until the end of the suspension was known
        self._boundary_ns = now_ns
        if self._timeline is None:
            self._count(self._stack[-1], self._held_out, self._slots, suspended_ns, now_ns - self._mark_ns)
            self._mark_ns = now_ns
        else:
            self._timeline.add((self._stack[-1], self._held_out, self._slots, suspended_ns))

    def _take(self, intervals: Sequence[Interval[_Owner]], until_ns: int) -> None:
        """Count intervals that a device has finished.

        Args:
            intervals: The intervals since the last that were counted.
            until_ns: Their end.
        """
        for owner, passed_ns, device_bound in intervals:
            self._count(*owner, passed_ns, device_bound)
        self._mark_ns = until_ns

    def _count(
        self, phase: Phase, held_out: int, slots: int, suspended_ns: int, passed_ns: int, device_bound: bool = False
    ) -> None:
        """Count a time for a phase, and the held-out slots' share of it as evaluation; suspended time counts apart.

        Args:
            phase: Phase of the innermost window.
            held_out: Held-out slots that take part.
            slots: All slots.
            suspended_ns: How long the process was suspended [ns]. This may be longer than the time, because a device
                may have worked for earlier intervals meanwhile.
            passed_ns: The time, suspensions included [ns].
            device_bound: Whether the device determined it.
        """
        if suspended_ns:
            suspended_ns = min(suspended_ns, passed_ns)
            self._spent_ns[Phase.SUSPENDED] += suspended_ns
            passed_ns -= suspended_ns
        if held_out and phase in SHARED_PHASES:
            evaluating_ns = passed_ns * held_out // slots
            self._count(Phase.EVALUATE, 0, 1, 0, evaluating_ns, device_bound)
            passed_ns -= evaluating_ns
        self._spent_ns[phase] += passed_ns
        if device_bound and self._device_bound_ns is not None:
            self._device_bound_ns[phase] = self._device_bound_ns.get(phase, 0) + passed_ns
