"""The physics engine of a simulation: the default of a new run, and overrides that choose another one."""

from __future__ import annotations

from collections.abc import Sequence

from isaaclab_tasks.utils.preset_target import PresetTarget

from ledger_lab.mujoco_cpu.choose import NATIVE_CHOICE, physics_choices
from ledger_lab.tasks.registry import task_package

_PACK = "ledger_lab"
"""The package whose tasks use MuJoCo's C code on a CPU, unless the user chooses another physics engine."""

_PHYSICS_CHOICES = ("physics", "env.sim.physics")
"""Overrides that choose a physics engine and nothing else."""


def with_default_physics(task: str, overrides: Sequence[str], device: str) -> tuple[str, ...]:
    """Return the overrides of a new run. If LedgerLab chooses the physics engine, they contain this choice.

    For tasks of this package on a CPU, the physics engine is MuJoCo's C code. In all other cases, the configuration of
    the task decides; for tasks of this package, that is MuJoCo-Warp. A run declares its overrides, so every program
    that loads the run uses the same physics engine. Earlier versions of LedgerLab did not add this choice, so their
    runs keep the default of the task.

    Args:
        task: Gymnasium id of a registered task.
        overrides: Hydra overrides.
        device: ``cpu`` or ``cuda:N``.
    """
    if device != "cpu" or task_package(task) != _PACK or _chooses_physics(task, overrides):
        return tuple(overrides)
    return (NATIVE_CHOICE, *overrides)


def _chooses_physics(task: str, overrides: Sequence[str]) -> bool:
    """Tell whether overrides choose a physics engine."""
    for override in overrides:
        key, _, value = override.partition("=")
        if key in _PHYSICS_CHOICES:
            return True
        if key == "presets" and {*value.split(",")} & {*physics_choices(task), *PresetTarget.PHYSICS.legacy_aliases}:
            return True
    return False


def changed_overrides(declared: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Replace declared overrides by new ones. If these choose a physics engine, drop the settings of the declared one.

    Args:
        declared: Overrides that a run declared.
        overrides: Overrides that change them.
    """
    keys = {override.partition("=")[0] for override in overrides}
    kept = [override for override in declared if override.partition("=")[0] not in keys]
    if keys & set(_PHYSICS_CHOICES):
        dropped = (*(f"{choice}=" for choice in _PHYSICS_CHOICES), "env.sim.physics.")
        kept = [override for override in kept if not override.startswith(dropped)]
    return [*kept, *overrides]
