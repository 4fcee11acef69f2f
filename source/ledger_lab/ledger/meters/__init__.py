"""Meters of a run: time by phase, memory, energy and facts of the host. They need no torch."""

from ledger_lab.ledger.meters.gpu import GpuMeter
from ledger_lab.ledger.meters.host import (
    hardware_facts,
    measured_or_none,
    package_sha256,
    package_versions,
    peak_host_memory_bytes,
)
from ledger_lab.ledger.meters.phases import LOOP_PHASES, TRAINING_PHASES, Phase, PhaseClock
from ledger_lab.ledger.meters.process import (
    PART_STARTED,
    part_environ,
    part_started_ns,
    python_started_ns,
    starved_ns,
)
from ledger_lab.ledger.meters.revision import git_changes, git_facts
from ledger_lab.ledger.meters.suspension import Suspensions
from ledger_lab.ledger.meters.telemetry import Sampler

__all__ = [
    "LOOP_PHASES",
    "PART_STARTED",
    "TRAINING_PHASES",
    "GpuMeter",
    "Phase",
    "PhaseClock",
    "Sampler",
    "Suspensions",
    "git_changes",
    "git_facts",
    "hardware_facts",
    "measured_or_none",
    "package_sha256",
    "package_versions",
    "part_environ",
    "part_started_ns",
    "peak_host_memory_bytes",
    "python_started_ns",
    "starved_ns",
]
