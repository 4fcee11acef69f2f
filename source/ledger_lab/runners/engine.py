"""Which physics engine a simulation uses: the default of a new run, and the engine that overrides change."""

from __future__ import annotations

from collections.abc import Sequence

from isaaclab_tasks.utils.preset_target import PresetTarget

from ledger_lab.native.choose import NATIVE_CHOICE, physics_choices
from ledger_lab.tasks.registry import task_package

_PACK = "ledger_lab"
"""The package whose tasks use MuJoCo's C code on a CPU, unless the user chooses another engine."""

_ENGINE_CHOICES = ("physics", "env.sim.physics")
"""Overrides that choose a physics engine and nothing else."""


def with_default_engine(task: str, overrides: Sequence[str], device: str) -> tuple[str, ...]:
    """Return the overrides of a new run, which name its engine if LedgerLab chooses it.

    For tasks of this package on a CPU, the engine is MuJoCo's C code. In all other cases, the configuration of the task
    has its own default; for tasks of this package, that is MuJoCo-Warp. As the engine is among the overrides, the run
    declares it, and every program that reads the run uses it. Earlier versions of LedgerLab did not add an engine, so
    their runs keep the default of the task.

    Args:
        task: Gymnasium id of a registered task.
        overrides: Hydra overrides.
        device: ``cpu`` or ``cuda:N``.
    """
    if device != "cpu" or task_package(task) != _PACK or _chooses_engine(task, overrides):
        return tuple(overrides)
    return (NATIVE_CHOICE, *overrides)


def _chooses_engine(task: str, overrides: Sequence[str]) -> bool:
    """Tell whether overrides choose a physics engine."""
    for override in overrides:
        key, _, value = override.partition("=")
        if key in _ENGINE_CHOICES:
            return True
        if key == "presets" and {*value.split(",")} & {*physics_choices(task), *PresetTarget.PHYSICS.legacy_aliases}:
            return True
    return False


def changed_overrides(declared: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Replace declared overrides by new ones. If these choose an engine, drop the settings of the declared engine.

    Args:
        declared: Overrides that a run declared.
        overrides: Overrides that change them.
    """
    keys = {override.partition("=")[0] for override in overrides}
    kept = [override for override in declared if override.partition("=")[0] not in keys]
    if keys & set(_ENGINE_CHOICES):
        gone = (*(f"{choice}=" for choice in _ENGINE_CHOICES), "env.sim.physics.")
        kept = [override for override in kept if not override.startswith(gone)]
    return [*kept, *overrides]
