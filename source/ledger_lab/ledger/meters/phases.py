"""Phases: the closed list of places where wall-clock time goes, and the clock that measures them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from ledger_lab.ledger.meters.device_time import DeviceTimeline, DeviceTimer, Interval


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
