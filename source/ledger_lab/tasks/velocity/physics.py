"""Physics engines of the velocity tasks, and their capacities."""

from isaaclab.physics import PhysxAutoCfg
from isaaclab.utils import configclass
from isaaclab_newton.physics import NewtonCfg, NewtonCollisionPipelineCfg
from isaaclab_ov.physics import OvPhysxCfg
from isaaclab_physx.physics import PhysxCfg
from isaaclab_tasks.utils import PresetCfg

from ledger_lab.tasks.parts import mjwarp


@configclass
class VelocityPhysicsCfg(PresetCfg):
    """Physics engines, chosen on the command line with ``physics=NAME``."""

    isaacsim_physx: PhysxCfg = PhysxCfg(gpu_max_rigid_patch_count=10 * 2**15)
    ovphysx: OvPhysxCfg = OvPhysxCfg(gpu_max_rigid_patch_count=10 * 2**15)
    physx: PhysxAutoCfg = PhysxAutoCfg(isaacsim_physx=isaacsim_physx, ovphysx=ovphysx)
    # measured with Go2s that fall or lie on their backs: 52 constraint rows, 14 contacts
    newton_mjwarp: NewtonCfg = mjwarp(120, 30, impratio=10)
    default: NewtonCfg = newton_mjwarp


@configclass
class RoughPhysicsCfg(VelocityPhysicsCfg):
    """The same engines on a height field."""

    # in MuJoCo's own height fields, a shape may touch at most 50 columns; the base touches more
    # measured with ANYmals that fall or lie on their backs: 109 constraint rows, 22 contacts; with a walking policy
    # under perturbations: 120 rows, and a mean of 14 contacts
    newton_mjwarp: NewtonCfg = mjwarp(136, 32, impratio=10, use_mujoco_contacts=False)
    # at most 80 per robot on the panel, with a policy that falls often: room for 6,000 robots
    newton_mjwarp.collision_cfg = NewtonCollisionPipelineCfg(max_triangle_pairs=500_000)
    default: NewtonCfg = newton_mjwarp
