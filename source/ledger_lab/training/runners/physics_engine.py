"""The physics engine of a simulation: the default of a new run, and overrides that choose another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from isaaclab_tasks.utils.preset_cli import enumerate_task_presets
from isaaclab_tasks.utils.preset_target import PresetTarget

from ledger_lab.panels.physics import NATIVE, physics_name
from ledger_lab.tasks.registry import task_package
from ledger_lab.wings import required_part, wing_part

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_NATIVE, _WARP = "newton_mujoco", "newton_mjwarp"
NATIVE_CHOICE, WARP_CHOICE = f"physics={_NATIVE}", f"physics={_WARP}"
"""Overrides that choose MuJoCo's C code, which is a wing, and MuJoCo-Warp, whose settings it takes."""

_PACK = "ledger_lab"
"""The package whose tasks use MuJoCo's C code on a CPU, unless the user chooses another physics engine."""

_PHYSICS_CHOICES = ("physics", "env.sim.physics")
"""Overrides that choose a physics engine and nothing else."""


def physics_choices(task: str) -> list[str]:
    """Return the names that ``physics=NAME`` takes for a task, in alphabetical order.

    Args:
        task: Gymnasium id of a registered task.
    """
    presets = (enumerate_task_presets(task) or {}).get(PresetTarget.PHYSICS, [])
    native = _WARP in presets and wing_part("native physics") is not None
    return sorted({*presets, _NATIVE} if native else presets)


def with_default_physics(task: str, overrides: Sequence[str], device: str) -> tuple[str, ...]:
    """Return the overrides of a new run. If LedgerLab chooses the physics engine, they contain this choice.

    For tasks of this package on a CPU, the physics engine is MuJoCo's C code, if it is installed. In all other cases,
    the configuration of the task decides; for tasks of this package, that is MuJoCo-Warp. A run declares its overrides,
    so every program that loads the run uses the same physics engine.

    Args:
        task: Gymnasium id of a registered task.
        overrides: Hydra overrides.
        device: ``cpu`` or ``cuda:N``.
    """
    ours = device == "cpu" and task_package(task) == _PACK and wing_part("native physics") is not None
    if not ours or _chooses_physics(task, overrides):
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


def require_memory(task: str, env_cfg: ManagerBasedRLEnvCfg, processes: int = 1) -> None:
    """Refuse environments that do not fit into the memory of this machine, if the needs of the engine are known.

    Args:
        task: Gymnasium id.
        env_cfg: Resolved configuration, with all environments of a process, held-out slots included.
        processes: Processes on this machine.

    Raises:
        UserError: If they need more than the process can still take.
    """
    if physics_name(env_cfg) == NATIVE:
        required_part("native memory")(task, env_cfg, processes)


def fitting_environments(task: str, env_cfg: ManagerBasedRLEnvCfg) -> int | None:
    """Return for how many environments, held-out slots included, there surely is memory; ``None`` if unknown.

    Args:
        task: Gymnasium id.
        env_cfg: Resolved configuration.
    """
    if physics_name(env_cfg) != NATIVE:
        return None
    number: int = required_part("native room")(task, env_cfg, cautious=True)
    return number


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
