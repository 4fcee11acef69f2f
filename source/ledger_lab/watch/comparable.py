"""Which runs say something about the time of another run: those with the same settings on the same kind of machine."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from ledger_lab.ledger import Run, RunDeclared

MOST_EARLIER_RUNS: Final = 200
"""Largest number of earlier runs that are read for one run, the newest ones. More would not narrow the estimate."""


def settings_of(declared: RunDeclared) -> Hashable:
    """Return what two runs must have in common, so that one says something about the time of the other.

    It is task, panel, target, library, configuration without seeds, environments and processes, the checkpoint that the
    networks began with, and the kind of machine.

    Args:
        declared: Declaration of a run.
    """
    on_cpu = not declared.device.startswith("cuda")
    hardware = declared.hardware
    return (
        declared.task,
        declared.panel_id,
        declared.target_success,
        declared.rl_library,
        tuple(sorted(declared.config_sha256.items())),
        declared.physics,
        declared.num_envs,
        declared.world_size,
        declared.machines,
        None if declared.began_from is None else declared.began_from["sha256"],
        on_cpu,
        (hardware.get("cpu"), hardware.get("cpu_cores")) if on_cpu else hardware.get("accelerator"),
    )


def earlier_runs(run: Run, ledger_runs: Sequence[Run]) -> list[Run]:
    """Return the other runs with the same settings, oldest first. They may still go on.

    To read few journals, it looks only among the runs of the same cohort and of the same folder, which is named after
    library and experiment.

    Args:
        run: The run.
        ledger_runs: All runs of the ledger, oldest first.
    """
    settings = settings_of(run.declared)
    return [
        other
        for other in _near(run, ledger_runs)
        if other.run_id != run.run_id and other.attempts and settings_of(other.declared) == settings
    ]


def _near(run: Run, ledger_runs: Sequence[Run]) -> Iterable[Run]:
    """Return the newest runs of the same cohort or folder; their journals need not be read for that."""
    folder = run.directory.parent
    near = [
        other
        for other in ledger_runs
        if other.directory.parent == folder or (run.cohort is not None and other.cohort == run.cohort)
    ]
    return near[-MOST_EARLIER_RUNS:]
