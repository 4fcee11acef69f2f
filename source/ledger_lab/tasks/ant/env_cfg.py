"""Robot, physics engines and environment of ``LedgerLab-Ant``.

The task is the well-known ant of Isaac Lab (``Isaac-Ant``): the same dynamics, starts, observations, rewards and
limits, on assets that need no network. The panel decides what counts as success.
"""

import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab.utils import configclass
from isaaclab_newton.physics import KaminoPADMMSolverCfg, NewtonCfg
from isaaclab_newton.sim.schemas import NewtonArticulationCfg
from isaaclab_physx.sim.schemas import PhysxArticulationCfg, PhysxRigidBodyCfg
from isaaclab_tasks.core.locomotion import mdp

from ledger_lab.tasks.ant.recipe import ANT
from ledger_lab.tasks.assets import ANT_USD
from ledger_lab.tasks.locomotion import LocomotionEnvCfg
from ledger_lab.tasks.parts import EnginesCfg, mjwarp

FEET = ["front_left_foot", "front_right_foot", "left_back_foot", "right_back_foot"]
GEARS = {".*": 15.0}
"""Relative strength of each joint."""

ANT_CFG = ArticulationCfg(
    spawn=sim_utils.UsdFileCfg(
        usd_path=str(ANT_USD),
        rigid_props=PhysxRigidBodyCfg(max_depenetration_velocity=10.0, enable_gyroscopic_forces=True),
        articulation_props=[
            PhysxArticulationCfg(
                enabled_self_collisions=False,
                solver_position_iteration_count=4,
                solver_velocity_iteration_count=0,
                sleep_threshold=0.005,
                stabilization_threshold=0.001,
            ),
            NewtonArticulationCfg(self_collision_enabled=False),
        ],
    ),
    init_state=ArticulationCfg.InitialStateCfg(
        pos=(0.0, 0.0, 0.5),
        joint_pos={
            ".*_leg": 0.0,
            "(front_left|right_back)_foot": 0.785398,
            "(front_right|left_back)_foot": -0.785398,
        },
    ),
    actuators={
        "body": ImplicitActuatorCfg(
            joint_names_expr=[".*"], joint_effort_limit=15.0, stiffness=0.0, damping=0.1, armature=0.05
        ),
    },
    joint_ordering="physx",
    body_ordering="physx",
)
"""Four legs of two joints each, with the feet at 45 degrees; actuators as in Isaac Lab's own ant."""


@configclass
class AntPhysicsCfg(EnginesCfg):
    """Physics engines, with room for an ant's contacts."""

    # measured with ants that fall or lie on their backs: 27 constraint rows, 9 contacts
    newton_mjwarp: NewtonCfg = mjwarp(45, 25, impratio=1)
    newton_kamino: NewtonCfg = NewtonCfg(solver_cfg=KaminoPADMMSolverCfg(sparse_jacobian=True), use_cuda_graph=True)
    default: NewtonCfg = newton_mjwarp


@configclass
class AntEnvCfg(LocomotionEnvCfg):
    """The whole environment; the policy observes 60 numbers."""

    def __post_init__(self) -> None:
        """Set the robot, its scales, its physics engine and the camera."""
        super().__post_init__()
        self.scene.num_envs = ANT.num_envs
        self.scene.robot = ANT_CFG.replace(prim_path="{ENV_REGEX_NS}/Robot")
        self.actions.joint_effort = mdp.JointEffortActionCfg(
            asset_name="robot", joint_names=[".*"], scale=7.5, clip={".*": (-7.5, 7.5)}
        )
        self.know_joints(FEET, GEARS)
        self.observations.policy.joint_vel_rel.scale = 0.2
        self.observations.policy.feet_body_forces.scale = 0.1
        self.sim.physics = AntPhysicsCfg()
        self.sim.default_visualizer_cfg.eye = (2.8, -1.6, 1.6)
        self.sim.default_visualizer_cfg.lookat = (0.0, 0.0, -0.1)
