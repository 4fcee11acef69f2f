"""Telemetry of host and accelerators, sampled once a second from outside of the training."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from ledger_lab.ledger import DeviceSample, EnergyReading, HostSample, Telemetry
from ledger_lab.ledger.control_groups import usable_bytes
from ledger_lab.ledger.meters.process_tree import ProcessTree


class Sampler:
    """Makes :class:`~ledger_lab.ledger.Telemetry` rows of an attempt, from a process outside of the attempt."""

    def __init__(
        self,
        pid: int,
        started_ns: int,
        devices: Callable[[], list[DeviceSample]] = list,
        *,
        energy_before: Callable[[str], EnergyReading | None] = lambda uuid: None,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """Start to watch.

        Args:
            pid: The attempt's process; its descendants are included.
            started_ns: Start of the attempt, on the scale of ``clock_ns``.
            devices: Samples the accelerators that the attempt uses.
            energy_before: Returns the energy counter of a device, by its UUID, at the start of the attempt; ``None`` if
                it was not read then.
            clock_ns: Monotonic clock [ns].
        """
        self._tree = ProcessTree(pid)
        self._devices = devices
        self._started_ns = self._sampled_ns = started_ns
        self._energy_before = energy_before
        self._clock_ns = clock_ns
        self._seen: set[str] = set()

    def sample(self) -> Telemetry:
        """Take one sample.

        Returns:
            The sample since the last call, or since the start of the attempt. If the attempt's processes have exited,
            there is no host sample. Devices that do not respond have no figures.
        """
        now_ns = self._clock_ns()
        return Telemetry(wall_ns=now_ns - self._started_ns, host=self._host(now_ns), devices=self._sample_devices())

    def start_over(self) -> None:
        """Let the next sample be the first one again, for a journal that begins later."""
        self._seen.clear()

    def _sample_devices(self) -> list[DeviceSample]:
        """Sample the devices. The first counter of each comes with its counter at the start."""
        samples = self._devices()
        for place, sample in enumerate(samples):
            if sample.energy_mj is not None and sample.uuid not in self._seen:
                self._seen.add(sample.uuid)
                samples[place] = replace(sample, energy_before=self._energy_before(sample.uuid))
        return samples

    def _host(self, now_ns: int) -> HostSample | None:
        """Return the host sample of the attempt's processes; ``None`` if there are none, or reading fails."""
        try:
            available = usable_bytes()
            usage = self._tree.usage()
        except OSError:
            return None  # this process is out of descriptors or memory; the next sample covers this time, too
        if usage is None:
            return None
        passed_s, self._sampled_ns = (now_ns - self._sampled_ns) / 1e9, now_ns
        return HostSample(
            cpu_s=usage.cpu_s,
            # Processor time is counted in ticks, so over a short time it may exceed the wall-clock time.
            busiest_thread=min(1.0, usage.busiest_thread_s / passed_s) if passed_s > 0 else None,
            memory_bytes=usage.memory_bytes,
            available_bytes=available,
        )
