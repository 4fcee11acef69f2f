"""Parts of an environment's configuration that tasks share: ground, light, camera and physics engines."""

from pathlib import Path
from typing import Any

import isaaclab.sim as sim_utils
from isaaclab.assets import AssetBaseCfg
from isaaclab.physics import PhysxAutoCfg
from isaaclab.utils import configclass
from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg
from isaaclab_ov.physics import OvPhysxCfg
from isaaclab_physx.physics import PhysxCfg
from isaaclab_tasks.utils import PresetCfg
from isaaclab_visualizers.kit import KitVisualizerCfg

from ledger_lab.tasks.assets import GROUND_USD

type Point = tuple[float, float, float]


def ground_cfg(usd: Path = GROUND_USD) -> AssetBaseCfg:
    """Return the ground, which all slots share.

    Args:
        usd: Its file.
    """
    return AssetBaseCfg(prim_path="/World/ground", spawn=sim_utils.UsdFileCfg(usd_path=str(usd)))


def light_cfg() -> AssetBaseCfg:
    """Return light from above, at an angle."""
    return AssetBaseCfg(
        prim_path="/World/light",
        init_state=AssetBaseCfg.InitialStateCfg(rot=(-0.1464, -0.3536, -0.3536, 0.8536)),
        spawn=sim_utils.DistantLightCfg(intensity=2000.0),
    )


def camera_cfg(eye: Point, lookat: Point, *, follows: str | None = None) -> KitVisualizerCfg:
    """Return the camera of viewers and videos.

    Args:
        eye: Its place, from the origin of the environment or of what it follows [m].
        lookat: The point that it looks at, from there [m].
        follows: Name of the asset that it follows.
    """
    origin = {"origin_type": "env"} if follows is None else {"origin_type": "asset", "origin_track_path": follows}
    return KitVisualizerCfg(eye=eye, lookat=lookat, focal_length=20.0, **origin)


def mjwarp(njmax: int, nconmax: int, *, impratio: int, num_substeps: int = 1, **settings: Any) -> NewtonCfg:
    """Return MuJoCo-Warp with room for so many constraints and contacts.

    Args:
        njmax: Constraint rows per slot.
        nconmax: Contacts per slot, in the mean of all slots.
        impratio: Ratio of the impedance of friction to that of normal forces.
        num_substeps: Steps of the solver per step of the simulation.
        settings: Further settings of the solver.
    """
    solver = MJWarpSolverCfg(
        njmax=njmax, nconmax=nconmax, cone="pyramidal", impratio=impratio, integrator="implicitfast", **settings
    )
    return NewtonCfg(solver_cfg=solver, num_substeps=num_substeps, use_cuda_graph=True)


@configclass
class EnginesCfg(PresetCfg):
    """Physics engines, chosen on the command line with ``physics=NAME``. A task adds MuJoCo-Warp as its default."""

    isaacsim_physx: PhysxCfg = PhysxCfg(bounce_threshold_velocity=0.2)
    ovphysx: OvPhysxCfg = OvPhysxCfg()
    physx: PhysxAutoCfg = PhysxAutoCfg(isaacsim_physx=isaacsim_physx, ovphysx=ovphysx)
