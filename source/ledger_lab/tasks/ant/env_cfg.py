"""Scene, observations, actions, rewards, terminations and events of ``LedgerLab-Ant``.

The task is the well-known ant of Isaac Lab (``Isaac-Ant``): the same dynamics, starts, observations, rewards and
limits, on assets that need no network. The panel decides what counts as success.
"""

import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg, AssetBaseCfg
from isaaclab.envs import ManagerBasedRLEnvCfg
from isaaclab.managers import EventTermCfg, ObservationGroupCfg, ObservationTermCfg, RewardTermCfg, TerminationTermCfg
from isaaclab.managers import SceneEntityCfg as Entity
from isaaclab.physics import PhysxAutoCfg
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.sensors import JointWrenchSensorCfg
from isaaclab.utils import configclass
from isaaclab_newton.physics import KaminoPADMMSolverCfg, MJWarpSolverCfg, NewtonCfg
from isaaclab_newton.sim.schemas import NewtonArticulationCfg
from isaaclab_ov.physics import OvPhysxCfg
from isaaclab_physx.physics import PhysxCfg
from isaaclab_physx.sim.schemas import PhysxArticulationCfg, PhysxRigidBodyCfg
from isaaclab_tasks.core.locomotion import mdp
from isaaclab_tasks.utils import PresetCfg
from isaaclab_visualizers.kit import KitVisualizerCfg

from ledger_lab.assets import ANT_USD, GROUND_USD
from ledger_lab.recipes.ant import ANT

FEET = ["front_left_foot", "front_right_foot", "left_back_foot", "right_back_foot"]
TARGET_M = (1000.0, 0.0, 0.0)
"""Position to walk to, relative to the slot's origin [m]; too far away to be reached."""
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
class AntPhysicsCfg(PresetCfg):
    """Physics engines, chosen on the command line with ``physics=NAME``."""

    isaacsim_physx: PhysxCfg = PhysxCfg(bounce_threshold_velocity=0.2)
    ovphysx: OvPhysxCfg = OvPhysxCfg()
    physx: PhysxAutoCfg = PhysxAutoCfg(isaacsim_physx=isaacsim_physx, ovphysx=ovphysx)
    newton_mjwarp: NewtonCfg = NewtonCfg(
        # measured with ants that fall or lie on their backs: 27 constraint rows, 9 contacts
        solver_cfg=MJWarpSolverCfg(njmax=45, nconmax=25, cone="pyramidal", impratio=1, integrator="implicitfast"),
        num_substeps=1,
        use_cuda_graph=True,
    )
    newton_kamino: NewtonCfg = NewtonCfg(solver_cfg=KaminoPADMMSolverCfg(sparse_jacobian=True), use_cuda_graph=True)
    default: NewtonCfg = newton_mjwarp


@configclass
class AntSceneCfg(InteractiveSceneCfg):
    """Ground, robot, contact sensors of the feet, and light."""

    ground = AssetBaseCfg(prim_path="/World/ground", spawn=sim_utils.UsdFileCfg(usd_path=str(GROUND_USD)))
    robot: ArticulationCfg = ANT_CFG.replace(prim_path="{ENV_REGEX_NS}/Robot")
    joint_wrench = JointWrenchSensorCfg(prim_path="{ENV_REGEX_NS}/Robot")
    light = AssetBaseCfg(
        prim_path="/World/light",
        init_state=AssetBaseCfg.InitialStateCfg(rot=(-0.1464, -0.3536, -0.3536, 0.8536)),
        spawn=sim_utils.DistantLightCfg(intensity=2000.0),
    )


@configclass
class ActionsCfg:
    """One action per joint: its torque, clipped at a unit action, because unbounded torques drive the solver to NaN."""

    joint_effort = mdp.JointEffortActionCfg(asset_name="robot", joint_names=[".*"], scale=7.5, clip={".*": (-7.5, 7.5)})


@configclass
class ObservationsCfg:
    """Observations: torso, joints, forces on the feet and the last action."""

    @configclass
    class PolicyCfg(ObservationGroupCfg):
        """Observations of the policy, in order; shape (num_envs, 60)."""

        base_height = ObservationTermCfg(func=mdp.base_pos_z)
        base_lin_vel = ObservationTermCfg(func=mdp.base_lin_vel)
        base_ang_vel = ObservationTermCfg(func=mdp.base_ang_vel)
        base_yaw_roll = ObservationTermCfg(func=mdp.base_yaw_roll)
        base_angle_to_target = ObservationTermCfg(func=mdp.base_angle_to_target, params={"target_pos": TARGET_M})
        base_up_proj = ObservationTermCfg(func=mdp.base_up_proj)
        base_heading_proj = ObservationTermCfg(func=mdp.base_heading_proj, params={"target_pos": TARGET_M})
        joint_pos_norm = ObservationTermCfg(func=mdp.joint_pos_limit_normalized)
        joint_vel_rel = ObservationTermCfg(func=mdp.joint_vel_rel, scale=0.2)
        feet_body_forces = ObservationTermCfg(
            func=mdp.body_incoming_wrench,
            scale=0.1,
            params={"sensor_cfg": Entity("joint_wrench", body_names=FEET, preserve_order=True)},
        )
        actions = ObservationTermCfg(func=mdp.last_action)

    policy: PolicyCfg = PolicyCfg()


@configclass
class EventsCfg:
    """Initial states of an episode."""

    reset_base = EventTermCfg(
        func=mdp.reset_root_state_uniform, mode="reset", params={"pose_range": {}, "velocity_range": {}}
    )
    reset_robot_joints = EventTermCfg(
        func=mdp.reset_joints_by_offset,
        mode="reset",
        params={"position_range": (-0.2, 0.2), "velocity_range": (-0.1, 0.1)},
    )


@configclass
class RewardsCfg:
    """Rewards, per second."""

    progress = RewardTermCfg(func=mdp.progress_reward, weight=1.0, params={"target_pos": TARGET_M})
    alive = RewardTermCfg(func=mdp.is_alive, weight=0.5)
    upright = RewardTermCfg(func=mdp.upright_posture_bonus, weight=0.1, params={"threshold": 0.93})
    move_to_target = RewardTermCfg(
        func=mdp.move_to_target_bonus, weight=0.5, params={"threshold": 0.8, "target_pos": TARGET_M}
    )
    action_l2 = RewardTermCfg(func=mdp.action_l2, weight=-0.005)
    energy = RewardTermCfg(func=mdp.power_consumption, weight=-0.05, params={"gear_ratio": GEARS})
    joint_pos_limits = RewardTermCfg(
        func=mdp.joint_pos_limits_penalty_ratio, weight=-0.1, params={"threshold": 0.99, "gear_ratio": GEARS}
    )
    terminating = RewardTermCfg(func=mdp.terminated_penalty, weight=-2.0)
    survival = RewardTermCfg(func=mdp.survival_success_rate, weight=0.0)
    """Isaac Lab's own success metric, logged for comparison; its weight is zero."""


@configclass
class TerminationsCfg:
    """Terminations."""

    time_out = TerminationTermCfg(func=mdp.time_out, time_out=True)
    torso_height = TerminationTermCfg(func=mdp.root_height_below_minimum, params={"minimum_height": 0.31})


@configclass
class AntEnvCfg(ManagerBasedRLEnvCfg):
    """The whole environment: 120 Hz physics, 60 Hz control, episodes of 16 s."""

    scene: AntSceneCfg = AntSceneCfg(num_envs=ANT.num_envs, env_spacing=5.0)
    observations: ObservationsCfg = ObservationsCfg()
    actions: ActionsCfg = ActionsCfg()
    rewards: RewardsCfg = RewardsCfg()
    terminations: TerminationsCfg = TerminationsCfg()
    events: EventsCfg = EventsCfg()

    def __post_init__(self) -> None:
        """Set the rates, the physics engine, the friction and the camera."""
        self.decimation = 2
        self.episode_length_s = 16
        self.sim.dt = 1 / 120
        self.sim.render_interval = self.decimation
        self.sim.physics = AntPhysicsCfg()
        self.sim.physics_material.static_friction = 1.0
        self.sim.physics_material.dynamic_friction = 1.0
        self.sim.default_visualizer_cfg = KitVisualizerCfg(
            eye=(2.8, -1.6, 1.6),
            lookat=(0.0, 0.0, -0.1),
            origin_type="asset",
            origin_track_path="robot",
            focal_length=20.0,
        )
