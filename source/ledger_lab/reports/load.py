"""What a run took of its hosts, from the telemetry of all its attempts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ledger_lab.ledger import HostSample, Run, Telemetry


@dataclass(frozen=True, kw_only=True)
class HostSummary:
    """What the processes of a run took of their hosts."""

    cpu_s_per_s: float
    """Processor seconds of all processes per second of wall-clock time: how many cores were busy."""
    mean_busiest_thread: float | None
    """Share of one core that the busiest thread took, in [0, 1]; the mean over time. Near 1, one thread holds the rest
    up."""
    peak_busiest_thread: float | None
    peak_memory_gb: float
    """Largest resident memory of all processes together [GB]."""
    least_available_gb: float
    """Least memory that a host had left [GB]."""


def summarize_host(run: Run) -> HostSummary | None:
    """Work out what a run took of its hosts.

    Args:
        run: The run.

    Returns:
        The summary; ``None`` where nobody looked.
    """
    wall_s: list[float] = []
    samples: list[tuple[float, HostSample]] = []  # with the seconds that each one speaks for
    for attempt in run.attempts:
        watched_s = 0.0
        for journal in attempt.journals:
            before_ns = 0
            for row in journal.of(Telemetry):
                if row.host is not None:
                    samples.append(((row.wall_ns - before_ns) / 1e9, row.host))
                    before_ns = row.wall_ns
            watched_s = max(watched_s, before_ns / 1e9)  # several observers of one attempt share its time
        wall_s.append(watched_s)
    if not samples or not math.fsum(wall_s):
        return None
    threads = [(seconds, host.busiest_thread) for seconds, host in samples if host.busiest_thread is not None]
    threads_s = math.fsum(seconds for seconds, _ in threads)
    return HostSummary(
        cpu_s_per_s=math.fsum(host.cpu_s for _, host in samples) / math.fsum(wall_s),
        mean_busiest_thread=math.fsum(s * share for s, share in threads) / threads_s if threads_s else None,
        peak_busiest_thread=max((share for _, share in threads), default=None),
        peak_memory_gb=max(host.memory_bytes for _, host in samples) / 1e9,
        least_available_gb=min(host.available_bytes for _, host in samples) / 1e9,
    )
