"""Copies everything that the next step of a simulation depends on."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

import warp as wp

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

    from ledger_lab.panels.capture import Capture

_SOLVER = frozenset(
    {
        *("time", "qpos", "qvel", "act", "history", "qacc_warmstart"),
        *("ctrl", "qfrc_applied", "xfrc_applied", "eq_active", "mocap_pos", "mocap_quat", "userdata"),
        *("tree_asleep", "tree_awake", "body_awake", "body_awake_ind", "dof_awake_ind"),
        *("ntree_awake", "nbody_awake", "nv_awake"),
    }
)
"""MuJoCo's integration state, as its documentation calls it: the inputs of a step. Each step recomputes all other
arrays."""


def whole_simulation(base: ManagerBasedRLEnv, others: Mapping[str, object], only: Mapping[type, Set[str]]) -> Capture:
    """Return an object that copies and restores everything that the next step depends on, with MuJoCo.

    Args:
        base: The environment, unwrapped.
        others: Further objects to copy, by name.
        only: Attributes to look at, by class; of other classes, all attributes.
    """
    from isaaclab.physics import PhysicsManager
    from isaaclab_newton.physics import NewtonManager
    from isaaclab_newton.physics.mjwarp_manager import NewtonMJWarpManager
    from mujoco_warp import Data
    from newton import ModelBuilder

    from ledger_lab.mujoco_cpu.step import Stepper
    from ledger_lab.panels.capture import Capture

    physics = {kind.__name__: kind for kind in (PhysicsManager, NewtonManager, NewtonMJWarpManager)}
    model = NewtonManager.backend.model
    # Skip its tables of pairs and labels: they are longer than everything else, and never change.
    short = (name for name, value in vars(model).items() if not isinstance(value, (dict, list, set, tuple)))
    parts = {Data: _SOLVER, type(model): frozenset(short), ModelBuilder: frozenset[str]()}
    parts[Stepper] = frozenset({"status"})  # the rest is memory of its threads, or belongs to MuJoCo-Warp
    return Capture({"env": base, **others, **physics}, only={**parts, **only})


def settle_properties() -> None:
    """Tell the solver of Newton now about changed physical properties, which it would hear in the next step.

    So what is copied afterwards is complete: that the solver still has to be told is not among it.
    """
    from isaaclab.physics import PhysicsManager
    from isaaclab_newton.physics import NewtonManager

    with wp.ScopedDevice(PhysicsManager._device):
        for change in list(NewtonManager._model_changes):
            NewtonManager._solver.notify_model_changed(change)
    NewtonManager._model_changes = set()


def refresh_properties() -> None:
    """Tell MuJoCo's C code that physical properties have been restored."""
    from isaaclab_newton.physics import NewtonManager

    NewtonManager._model_changes = set()  # of what has been replaced
    stepper = getattr(NewtonManager._solver, "stepper", None)
    if stepper is not None:
        stepper.refresh()
