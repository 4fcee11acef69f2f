"""What a run took of its hosts and of its physics engine's room, in all its attempts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ledger_lab.ledger import Attempt, CapacityUsed, Run


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
    """Largest resident memory of all processes together [GB]; of several ranks, the sum of what each had at most."""
    least_available_gb: float
    """Least memory that a host had left [GB]."""


def summarize_host(run: Run) -> HostSummary | None:
    """Work out what a run took of its hosts.

    Args:
        run: The run.

    Returns:
        The summary; ``None`` where nobody looked.
    """
    observers = [[journal.telemetry.host for journal in attempt.journals] for attempt in run.attempts]
    # Several observers of one attempt share its time.
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
    """What the simulation of a training needed at most of what its physics engine has room for, judging included."""

    constraints: int
    """Constraint rows of the environment that had most of them."""
    constraint_capacity: int
    """Constraint rows that each environment has room for (``njmax``)."""
    contacts_per_env: float
    """Contacts, or pairs of shapes that came close, of all environments together at their worst moment, divided by
    their number."""
    contact_capacity_per_env: float
    """Contacts that there is room for, divided by the environments that share it."""


def summarize_room(attempts: Iterable[Attempt]) -> RoomSummary | None:
    """Work out how much room the physics of a training needed. What evaluations needed is another simulation's.

    Args:
        attempts: Attempts of one run.

    Returns:
        The summary, of those attempts that came to their end by themselves; ``None`` where none did, where nobody
        judged, or where the engine's room has no limits.
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
