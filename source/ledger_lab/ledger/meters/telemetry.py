"""Telemetry of host and accelerators, sampled once a second from outside of the training.

The use of the host by a process and all its descendants comes from ``/proc`` (proc(5)).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ledger_lab.ledger import DeviceSample, EnergyReading, HostSample, Telemetry
from ledger_lab.ledger.control_groups import usable_bytes

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class HostUsage:
    """Processor time of a process tree since the last reading, and its present memory."""

    cpu_s: float
    """Processor seconds of all threads [s]."""
    busiest_thread_s: float
    """Processor seconds of the busiest thread [s]."""
    memory_bytes: int
    """Resident memory [B]; shared pages count for each process."""


@dataclass(frozen=True)
class _Stat:
    """A line of ``stat``, of a process or of a thread; times in clock ticks."""

    parent: int
    own: int
    """Time of its threads."""
    reaped: int
    """Time of its children that have ended and that it waited for, and of their children."""
    started: int
    resident_pages: int


@dataclass
class _Account:
    """Counted times of one process, in clock ticks."""

    started: int
    """Start time; a process with the same id and a later start is a different process."""
    parent: int
    own: int = 0
    reaped: int = 0
    """Counted time of its ended children, before or after their end."""


class ProcessTree:
    """A process and its descendants, including those whose parents have ended."""

    def __init__(self, pid: int) -> None:
        """Start to watch.

        Args:
            pid: The process. Its whole life counts, from its start.
        """
        self._accounts: dict[int, _Account] = {}  # parents come before their children
        self._foreign: set[int] = set()
        self._threads: dict[tuple[int, int], int] = {}
        root = _stat(f"/proc/{pid}/stat")
        if root is not None:
            self._accounts[pid] = _Account(root.started, root.parent)

    def usage(self) -> HostUsage | None:
        """Return what was used since the last call; ``None`` if no process is left.

        When a child ends, its processor time moves to the parent that waits for it. Time counted while the child lived
        is not counted again. If no process of the tree waits for the child, the time that it used after the last
        call is lost.

        Raises:
            OSError: If this process can't read ``/proc``, for example because it has no file descriptors left. Nothing
                is lost: the next call counts it.
        """
        stats = self._read()
        threads = self._read_threads(stats)
        return self._count(stats, threads) if stats else None

    def _read(self) -> dict[int, _Stat]:
        """Read all processes of the tree, parents before their children; a child that ends meanwhile does no harm."""
        listed = {int(name) for name in os.listdir("/proc") if name.isdecimal()}
        stats: dict[int, _Stat] = {}
        for pid, account in self._accounts.items():
            stat = _stat(f"/proc/{pid}/stat")
            if stat is not None and stat.started == account.started:
                stats[pid] = stat
        self._foreign &= listed
        fresh: dict[int, _Stat] = {}
        for pid in sorted(listed - self._foreign - self._accounts.keys()):
            stat = _stat(f"/proc/{pid}/stat")
            if stat is not None:
                fresh[pid] = stat
        while found := [pid for pid, stat in fresh.items() if stat.parent in stats]:
            for pid in found:
                stats[pid] = fresh.pop(pid)
        # A process of another tree stays in it, so on a host with thousands of processes only new ones are read. A
        # process whose parent started after the listing is checked again.
        self._foreign.update(pid for pid, stat in fresh.items() if stat.parent in listed or stat.parent == 0)
        return stats

    @staticmethod
    def _read_threads(stats: dict[int, _Stat]) -> dict[tuple[int, int], int]:
        """Return the processor time of every thread of the tree, in ticks."""
        times: dict[tuple[int, int], int] = {}
        for pid in stats:
            for name in _names(f"/proc/{pid}/task"):
                thread = _stat(f"/proc/{pid}/task/{name}/stat")
                if thread is not None:
                    times[pid, int(name)] = thread.own
        return times

    def _count(self, stats: dict[int, _Stat], threads: dict[tuple[int, int], int]) -> HostUsage:
        """Count the new time in a reading."""
        for pid in [pid for pid in reversed(self._accounts) if pid not in stats]:
            ended = self._accounts.pop(pid)
            heir = self._accounts.get(ended.parent)
            if heir is not None:
                heir.reaped += ended.own + ended.reaped
        ticks = 0
        for pid, stat in stats.items():
            account = self._accounts.setdefault(pid, _Account(stat.started, stat.parent))
            account.parent = stat.parent
            ticks += max(0, stat.own - account.own) + max(0, stat.reaped - account.reaped)
            account.own, account.reaped = max(stat.own, account.own), max(stat.reaped, account.reaped)
        busiest = max((time - self._threads.get(key, 0) for key, time in threads.items()), default=0)
        self._threads = threads
        return HostUsage(
            cpu_s=ticks * _TICK_S,
            busiest_thread_s=max(0, busiest) * _TICK_S,
            memory_bytes=sum(stat.resident_pages for stat in stats.values()) * _PAGE_BYTES,
        )


def _stat(path: str) -> _Stat | None:
    """Read a ``stat`` file; ``None`` if its process or thread is gone."""
    try:
        text = _text(path)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name before it may contain any character
    return _Stat(
        parent=int(fields[1]),
        own=int(fields[11]) + int(fields[12]),
        reaped=int(fields[13]) + int(fields[14]),
        started=int(fields[19]),
        resident_pages=int(fields[21]),
    )


def _names(folder: str) -> Iterable[str]:
    """List a folder; nothing if its process is gone."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ()


def _text(path: str) -> str:
    """Read a small kernel file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096).decode(errors="replace")
    finally:
        os.close(descriptor)


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
