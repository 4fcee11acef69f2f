"""Names and properties of the physics engine that a configuration chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg


WARP, NATIVE = "newton/mjwarp", "newton/mujoco"
"""MuJoCo-Warp, and MuJoCo's C code on the cores of a CPU, each as the solver of a Newton scene."""


def is_newton(env_cfg: ManagerBasedRLEnvCfg) -> bool:
    """Tell whether the physics engine is Newton, which simulates every environment as a separate world."""
    return type(env_cfg.sim.physics).__name__ == "NewtonCfg"


def is_mujoco(env_cfg: ManagerBasedRLEnvCfg) -> bool:
    """Tell whether MuJoCo's equations are solved in a Newton scene, by MuJoCo-Warp or by MuJoCo's C code."""
    return physics_name(env_cfg) in (WARP, NATIVE)


def exactness(env_cfg: ManagerBasedRLEnvCfg) -> Literal["bitwise", "statistical"]:
    """Return how well a score repeats: ``bitwise`` if tests prove it, else ``statistical``.

    MuJoCo's solver can use Newton's own contacts, which are found for all environments together. On height fields, the
    kept contacts and their order then depend on the other environments, unless Newton is set to be deterministic.
    """
    if physics_name(env_cfg) == NATIVE:
        return "bitwise"
    if physics_name(env_cfg) != WARP or env_cfg.sim.device != "cpu":
        return "statistical"
    physics = env_cfg.sim.physics
    in_order = physics.deterministic and not physics.solver_cfg.use_mujoco_cpu
    return "bitwise" if in_order or physics.solver_cfg.use_mujoco_contacts else "statistical"


def physics_name(env_cfg: ManagerBasedRLEnvCfg) -> str:
    """Return the physics engine and its solver in a few words, like ``newton/mjwarp``."""
    physics = env_cfg.sim.physics
    engine = type(physics).__name__.removesuffix("Cfg").lower()
    solver = getattr(physics, "solver_cfg", None)
    return engine if solver is None else f"{engine}/{type(solver).__name__.removesuffix('SolverCfg').lower()}"
