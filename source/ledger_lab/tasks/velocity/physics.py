"""Physics engines of the velocity tasks, and their capacities."""

from isaaclab.physics import PhysxAutoCfg
from isaaclab.utils import configclass
from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg, NewtonCollisionPipelineCfg
from isaaclab_ov.physics import OvPhysxCfg
from isaaclab_physx.physics import PhysxCfg
from isaaclab_tasks.utils import PresetCfg


@configclass
class VelocityPhysicsCfg(PresetCfg):
    """Physics engines, chosen on the command line with ``physics=NAME``."""

    isaacsim_physx: PhysxCfg = PhysxCfg(gpu_max_rigid_patch_count=10 * 2**15)
    ovphysx: OvPhysxCfg = OvPhysxCfg(gpu_max_rigid_patch_count=10 * 2**15)
    physx: PhysxAutoCfg = PhysxAutoCfg(isaacsim_physx=isaacsim_physx, ovphysx=ovphysx)
    newton_mjwarp: NewtonCfg = NewtonCfg(
        # measured with Go2s that fall or lie on their backs: 52 constraint rows, 14 contacts
        solver_cfg=MJWarpSolverCfg(njmax=120, nconmax=30, cone="pyramidal", impratio=10, integrator="implicitfast"),
        num_substeps=1,
        use_cuda_graph=True,
    )
    default: NewtonCfg = newton_mjwarp


@configclass
class RoughPhysicsCfg(VelocityPhysicsCfg):
    """The same engines on a height field."""

    newton_mjwarp: NewtonCfg = NewtonCfg(
        # in MuJoCo's own height fields, a shape may touch at most 50 columns; the base touches more
        # measured with ANYmals that fall or lie on their backs: 109 constraint rows, 22 contacts; with a walking policy
        # under perturbations: 120 rows, and a mean of 14 contacts
        solver_cfg=MJWarpSolverCfg(
            njmax=136,
            nconmax=32,
            cone="pyramidal",
            impratio=10,
            integrator="implicitfast",
            use_mujoco_contacts=False,
        ),
        # at most 80 per robot on the panel, with a policy that falls often: room for 6,000 robots
        collision_cfg=NewtonCollisionPipelineCfg(max_triangle_pairs=500_000),
        num_substeps=1,
        use_cuda_graph=True,
    )
    default: NewtonCfg = newton_mjwarp
