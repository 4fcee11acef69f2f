"""What host and accelerators are doing, once a second, seen from outside the training."""

from __future__ import annotations

import time
from collections.abc import Callable

from ledger_lab.ledger import HostSample, Telemetry
from ledger_lab.meters.devices import Devices
from ledger_lab.meters.process_tree import ProcessTree, available_bytes


class Sampler:
    """Makes :class:`~ledger_lab.ledger.Telemetry` rows of an attempt, from a process that is none of its own."""

    def __init__(
        self,
        pid: int,
        started_ns: int,
        devices: Devices,
        *,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """Begin to watch.

        Args:
            pid: The attempt's process; its descendants count with it.
            started_ns: When the attempt began, on ``clock_ns``'s scale.
            devices: The accelerators that it uses.
            clock_ns: Monotonic clock [ns].
        """
        self._tree = ProcessTree(pid)
        self._devices = devices
        self._started_ns = self._sampled_ns = started_ns
        self._clock_ns = clock_ns

    def sample(self) -> Telemetry:
        """Look once.

        Returns:
            What was going on since the last call; since the start of the attempt in the first one. Once the attempt's
            processes are gone there is no host's part, and devices that don't answer have no figures.
        """
        now_ns = self._clock_ns()
        return Telemetry(wall_ns=now_ns - self._started_ns, host=self._host(now_ns), devices=self._devices.sample())

    def _host(self, now_ns: int) -> HostSample | None:
        """Return what the attempt's processes take of the host; ``None`` if there are none, or nobody can tell."""
        try:
            available = available_bytes()
            usage = self._tree.usage()
        except OSError:
            return None  # this process is out of descriptors or memory: the next sample counts what this one missed
        if usage is None:
            return None
        passed_s, self._sampled_ns = (now_ns - self._sampled_ns) / 1e9, now_ns
        return HostSample(
            cpu_s=usage.cpu_s,
            # Processor time is counted in ticks: over a short while it may seem to be more than has passed.
            busiest_thread=min(1.0, usage.busiest_thread_s / passed_s) if passed_s > 0 else None,
            memory_bytes=usage.memory_bytes,
            available_bytes=available,
        )

    def close(self) -> None:
        """Let go of the devices."""
        self._devices.close()
