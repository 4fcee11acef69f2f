"""Which runs say something about the time of another run: those with the same settings on the same kind of machine."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import islice
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
        declared.machine,
        tuple(declared.hardware.get(key) for key in ("cpu_cores", "cpu_quota") if on_cpu),
    )


def is_comparable(run: Run, other: Run) -> bool:
    """Tell whether another run has the same settings, and has started.

    Args:
        run: The run.
        other: The other run.

    Raises:
        UserError: If one of them can't be read any more.
    """
    same = other.run_id != run.run_id and bool(other.attempts)
    return same and settings_of(other.declared) == settings_of(run.declared)


def near_runs(run: Run, ledger_runs: Sequence[Run]) -> list[Run]:
    """Return the newest runs of the same cohort, or in the same folder, which is named after library and experiment.

    Other runs seldom have the same settings. No journal is read for that.

    Args:
        run: The run.
        ledger_runs: All runs of the ledger, oldest first.
    """
    folder = run.directory.parent
    near = (
        other
        for other in reversed(ledger_runs)
        if (run.cohort is not None and other.cohort == run.cohort) or other.directory.parent == folder
    )
    return [*islice(near, MOST_EARLIER_RUNS)][::-1]


def is_superseded_by(run: Run, other: Run) -> bool:
    """Tell whether another run has taken the place of a run: it is later, and has the same cohort and seed.

    Args:
        run: The run.
        other: The other run.

    Raises:
        UserError: If one of them can't be read any more.
    """
    later = run.cohort is not None and other.cohort == run.cohort and other.declared_at > run.declared_at
    return later and other.declared.seed == run.declared.seed
