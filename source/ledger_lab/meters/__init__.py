"""What a run consumed: its time by phase, its memory, and the facts of its host. No torch is needed for any of it."""

from ledger_lab.meters.host import git_facts, hardware_facts, package_versions, peak_host_memory_bytes
from ledger_lab.meters.phases import TRAINING_PHASES, Phase, PhaseClock
from ledger_lab.meters.process import process_started_ns

__all__ = [
    "TRAINING_PHASES",
    "Phase",
    "PhaseClock",
    "git_facts",
    "hardware_facts",
    "package_versions",
    "peak_host_memory_bytes",
    "process_started_ns",
]
