"""Scene, observations, actions, rewards, terminations and events of ``LedgerLab-Humanoid``.

The task is the well-known humanoid of Isaac Lab (``Isaac-Humanoid``): the same starts, observations, actions, rewards
and limits, on assets that need no network; relative to staying alive, progress has twice the reward. The panel decides
what counts as success.
"""

import isaaclab.sim as sim_utils
from isaaclab.assets import ArticulationCfg, AssetBaseCfg
from isaaclab.envs import ManagerBasedRLEnvCfg
from isaaclab.managers import EventTermCfg, ObservationGroupCfg, ObservationTermCfg, RewardTermCfg, TerminationTermCfg
from isaaclab.managers import SceneEntityCfg as Entity
from isaaclab.physics import PhysxAutoCfg
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.sensors import JointWrenchSensorCfg
from isaaclab.utils import configclass
from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg
from isaaclab_ov.physics import OvPhysxCfg
from isaaclab_physx.physics import PhysxCfg
from isaaclab_tasks.core.locomotion import mdp
from isaaclab_tasks.utils import PresetCfg
from isaaclab_visualizers.kit import KitVisualizerCfg

from ledger_lab.assets import GROUND_USD
from ledger_lab.assets.humanoid import humanoid_cfg
from ledger_lab.recipes.humanoid import HUMANOID

FEET = ["left_foot", "right_foot"]
TARGET_M = (1000.0, 0.0, 0.0)
"""Position to walk to, relative to the slot's origin [m]; too far away to be reached."""
GEARS = {
    ".*_waist.*": 67.5,
    ".*_upper_arm.*": 67.5,
    "pelvis": 67.5,
    ".*_lower_arm": 45.0,
    ".*_thigh:[02]": 45.0,
    ".*_thigh:1": 135.0,
    ".*_shin": 90.0,
    ".*_foot.*": 22.5,
}
"""Torque of a unit action by joint [N·m], as in Isaac Lab."""


@configclass
class HumanoidPhysicsCfg(PresetCfg):
    """Physics engines, chosen on the command line with ``physics=NAME``."""

    isaacsim_physx: PhysxCfg = PhysxCfg(bounce_threshold_velocity=0.2)
    ovphysx: OvPhysxCfg = OvPhysxCfg()
    physx: PhysxAutoCfg = PhysxAutoCfg(isaacsim_physx=isaacsim_physx, ovphysx=ovphysx)
    newton_mjwarp: NewtonCfg = NewtonCfg(
        # measured with humanoids that fall or lie: 69 constraint rows, 18 contacts
        solver_cfg=MJWarpSolverCfg(njmax=80, nconmax=24, cone="pyramidal", impratio=1, integrator="implicitfast"),
        num_substeps=2,
        use_cuda_graph=True,
    )
    default: NewtonCfg = newton_mjwarp


@configclass
class HumanoidSceneCfg(InteractiveSceneCfg):
    """Ground, robot, contact sensors of the feet, and light."""

    ground = AssetBaseCfg(prim_path="/World/ground", spawn=sim_utils.UsdFileCfg(usd_path=str(GROUND_USD)))
    robot: ArticulationCfg = humanoid_cfg()
    joint_wrench = JointWrenchSensorCfg(prim_path="{ENV_REGEX_NS}/Robot")
    light = AssetBaseCfg(
        prim_path="/World/light",
        init_state=AssetBaseCfg.InitialStateCfg(rot=(-0.1464, -0.3536, -0.3536, 0.8536)),
        spawn=sim_utils.DistantLightCfg(intensity=2000.0),
    )


@configclass
class ActionsCfg:
    """One action per joint: its torque, clipped at a unit action, because unbounded torques drive the solver to NaN."""

    joint_effort = mdp.JointEffortActionCfg(
        asset_name="robot",
        joint_names=[".*"],
        scale=GEARS,
        clip={joint: (-gear, gear) for joint, gear in GEARS.items()},
    )


@configclass
class ObservationsCfg:
    """Observations: torso, joints, forces on the feet and the last action."""

    @configclass
    class PolicyCfg(ObservationGroupCfg):
        """Observations of the policy, in order; shape (num_envs, 87)."""

        base_height = ObservationTermCfg(func=mdp.base_pos_z)
        base_lin_vel = ObservationTermCfg(func=mdp.base_lin_vel)
        base_ang_vel = ObservationTermCfg(func=mdp.base_ang_vel, scale=0.25)
        base_yaw_roll = ObservationTermCfg(func=mdp.base_yaw_roll)
        base_angle_to_target = ObservationTermCfg(func=mdp.base_angle_to_target, params={"target_pos": TARGET_M})
        base_up_proj = ObservationTermCfg(func=mdp.base_up_proj)
        base_heading_proj = ObservationTermCfg(func=mdp.base_heading_proj, params={"target_pos": TARGET_M})
        joint_pos_norm = ObservationTermCfg(func=mdp.joint_pos_limit_normalized)
        joint_vel_rel = ObservationTermCfg(func=mdp.joint_vel_rel, scale=0.1)
        feet_body_forces = ObservationTermCfg(
            func=mdp.body_incoming_wrench,
            scale=0.01,
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

    progress = RewardTermCfg(func=mdp.progress_reward, weight=2.0, params={"target_pos": TARGET_M})
    alive = RewardTermCfg(func=mdp.is_alive, weight=2.0)
    upright = RewardTermCfg(func=mdp.upright_posture_bonus, weight=0.1, params={"threshold": 0.93})
    move_to_target = RewardTermCfg(
        func=mdp.move_to_target_bonus, weight=0.5, params={"threshold": 0.8, "target_pos": TARGET_M}
    )
    action_l2 = RewardTermCfg(func=mdp.action_l2, weight=-0.01)
    energy = RewardTermCfg(func=mdp.power_consumption, weight=-0.005, params={"gear_ratio": GEARS})
    joint_pos_limits = RewardTermCfg(
        func=mdp.joint_pos_limits_penalty_ratio, weight=-0.25, params={"threshold": 0.98, "gear_ratio": GEARS}
    )
    terminating = RewardTermCfg(func=mdp.terminated_penalty, weight=-1.0)
    survival = RewardTermCfg(func=mdp.survival_success_rate, weight=0.0)
    """Isaac Lab's own success metric, logged for comparison; its weight is zero."""


@configclass
class TerminationsCfg:
    """Terminations."""

    time_out = TerminationTermCfg(func=mdp.time_out, time_out=True)
    torso_height = TerminationTermCfg(func=mdp.root_height_below_minimum, params={"minimum_height": 0.8})


@configclass
class HumanoidEnvCfg(ManagerBasedRLEnvCfg):
    """The whole environment: 120 Hz physics, 60 Hz control, episodes of 16 s."""

    scene: HumanoidSceneCfg = HumanoidSceneCfg(num_envs=HUMANOID.num_envs, env_spacing=5.0)
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
        self.sim.physics = HumanoidPhysicsCfg()
        self.sim.physics_material.static_friction = 1.0
        self.sim.physics_material.dynamic_friction = 1.0
        self.sim.default_visualizer_cfg = KitVisualizerCfg(
            eye=(2.2, -2.9, 0.5),
            lookat=(0.0, 0.0, -0.3),
            origin_type="asset",
            origin_track_path="robot",
            focal_length=20.0,
        )
