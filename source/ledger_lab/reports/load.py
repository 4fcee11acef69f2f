"""A run's use of its hosts, and of its physics engine's capacities, in all its attempts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ledger_lab.ledger import Attempt, CapacityUsed, Run


@dataclass(frozen=True, kw_only=True)
class HostSummary:
    """Use of the hosts by the processes of a run."""

    cpu_s_per_s: float
    """Number of busy cores: processor seconds of all processes per second of wall-clock time."""
    mean_busiest_thread: float | None
    """Share of one core that the busiest thread took, in [0, 1]; the mean over time. Near 1, the other threads wait for
    this thread."""
    peak_busiest_thread: float | None
    peak_memory_gb: float
    """Largest resident memory of all processes together [GB]; with several ranks, the sum of their peaks."""
    least_available_gb: float
    """Smallest available memory of a host [GB]."""


def summarize_host(run: Run) -> HostSummary | None:
    """Compute a run's use of its hosts.

    Args:
        run: The run.

    Returns:
        The summary; ``None`` if the hosts were not sampled.
    """
    observers = [[journal.telemetry.host for journal in attempt.journals] for attempt in run.attempts]
    # Several supervisors observe the same time of an attempt, so it counts once.
    wall_s = math.fsum(max((sums.watched_ns for sums in own), default=0) for own in observers) / 1e9
    seen = [sums for own in observers for sums in own if sums.samples]
    if not seen or not wall_s:
        return None
    threads_ns = sum(sums.threads_ns for sums in seen)
    busy_ns = math.fsum(sums.threads_busy_ns for sums in seen)
    return HostSummary(
        cpu_s_per_s=math.fsum(sums.cpu_s for sums in seen) / wall_s,
        mean_busiest_thread=busy_ns / threads_ns if threads_ns else None,
        peak_busiest_thread=max(
            (s.peak_busiest_thread for s in seen if s.peak_busiest_thread is not None), default=None
        ),
        peak_memory_gb=max(sum(sums.peak_memory_bytes for sums in own) for own in observers) / 1e9,
        least_available_gb=min(s.least_available_bytes for s in seen if s.least_available_bytes is not None) / 1e9,
    )


@dataclass(frozen=True, kw_only=True)
class RoomSummary:
    """Largest use of the physics engine's capacities by the simulation of a training, held-out slots included."""

    constraints: int
    """Largest number of constraint rows in an environment."""
    constraint_capacity: int
    """Capacity for constraint rows per environment (``njmax``)."""
    contacts_per_env: float
    """Largest number of contacts, or of close pairs of shapes, of all environments together, divided by the number of
    environments."""
    contact_capacity_per_env: float
    """Capacity for contacts, divided by the environments that share it."""


def summarize_room(attempts: Iterable[Attempt]) -> RoomSummary | None:
    """Compute the largest use of the physics engine's capacities in a training; stand-alone evaluations don't count.

    Args:
        attempts: Attempts of one run.

    Returns:
        The summary of the attempts that ended by themselves. ``None`` if none did, if no policy was scored, or if the
        engine has no capacities.
    """
    used = [row for attempt in attempts for row in attempt.of(CapacityUsed)]
    if not used:
        return None
    return RoomSummary(
        constraints=max(row.constraints for row in used),
        constraint_capacity=used[-1].constraint_capacity,
        contacts_per_env=max(row.contacts / row.slots for row in used),
        contact_capacity_per_env=used[-1].contact_capacity / used[-1].slots,
    )
