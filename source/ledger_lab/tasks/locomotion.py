"""What the ant and the humanoid share: they are to go ahead, along +x, and stay on their feet.

Scene, observations, starts, rewards and limits are those of Isaac Lab's own tasks (``Isaac-Ant``, ``Isaac-Humanoid``).
Each task sets its robot, its feet, and the scales and weights that differ.
"""

from collections.abc import Mapping
from dataclasses import MISSING

from isaaclab.assets import ArticulationCfg
from isaaclab.envs import ManagerBasedRLEnvCfg
from isaaclab.managers import EventTermCfg, ObservationGroupCfg, ObservationTermCfg, RewardTermCfg, TerminationTermCfg
from isaaclab.managers import SceneEntityCfg as Entity
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.sensors import JointWrenchSensorCfg
from isaaclab.utils import configclass
from isaaclab_tasks.core.locomotion import mdp
from isaaclab_visualizers.kit import KitVisualizerCfg

from ledger_lab.tasks.parts import ground_cfg, light_cfg

TARGET_M = (1000.0, 0.0, 0.0)
"""Where to walk, from the slot's origin [m]: too far away to be reached."""


@configclass
class LocomotionSceneCfg(InteractiveSceneCfg):
    """Ground, robot, the feet's sensors and light."""

    ground = ground_cfg()
    robot: ArticulationCfg = MISSING
    joint_wrench = JointWrenchSensorCfg(prim_path="{ENV_REGEX_NS}/Robot")
    light = light_cfg()


@configclass
class ActionsCfg:
    """One action per joint: its torque, clipped at a unit action, because unbounded torques drive the solver to NaN."""

    joint_effort: mdp.JointEffortActionCfg = MISSING


@configclass
class ObservationsCfg:
    """What the policy sees: torso, joints, the forces on the feet and its last action."""

    @configclass
    class PolicyCfg(ObservationGroupCfg):
        """Observations of the policy, in order."""

        base_height = ObservationTermCfg(func=mdp.base_pos_z)
        base_lin_vel = ObservationTermCfg(func=mdp.base_lin_vel)
        base_ang_vel = ObservationTermCfg(func=mdp.base_ang_vel)
        base_yaw_roll = ObservationTermCfg(func=mdp.base_yaw_roll)
        base_angle_to_target = ObservationTermCfg(func=mdp.base_angle_to_target, params={"target_pos": TARGET_M})
        base_up_proj = ObservationTermCfg(func=mdp.base_up_proj)
        base_heading_proj = ObservationTermCfg(func=mdp.base_heading_proj, params={"target_pos": TARGET_M})
        joint_pos_norm = ObservationTermCfg(func=mdp.joint_pos_limit_normalized)
        joint_vel_rel = ObservationTermCfg(func=mdp.joint_vel_rel)
        feet_body_forces = ObservationTermCfg(func=mdp.body_incoming_wrench)
        actions = ObservationTermCfg(func=mdp.last_action)

    policy: PolicyCfg = PolicyCfg()


@configclass
class EventsCfg:
    """Where an episode starts."""

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
    """What is rewarded, per second."""

    progress = RewardTermCfg(func=mdp.progress_reward, weight=1.0, params={"target_pos": TARGET_M})
    alive = RewardTermCfg(func=mdp.is_alive, weight=0.5)
    upright = RewardTermCfg(func=mdp.upright_posture_bonus, weight=0.1, params={"threshold": 0.93})
    move_to_target = RewardTermCfg(
        func=mdp.move_to_target_bonus, weight=0.5, params={"threshold": 0.8, "target_pos": TARGET_M}
    )
    action_l2 = RewardTermCfg(func=mdp.action_l2, weight=-0.005)
    energy = RewardTermCfg(func=mdp.power_consumption, weight=-0.05)
    joint_pos_limits = RewardTermCfg(func=mdp.joint_pos_limits_penalty_ratio, weight=-0.1, params={"threshold": 0.99})
    terminating = RewardTermCfg(func=mdp.terminated_penalty, weight=-2.0)
    survival = RewardTermCfg(func=mdp.survival_success_rate, weight=0.0)
    """Isaac Lab's stock success metric, logged beside ours for comparison; it has no weight."""


@configclass
class TerminationsCfg:
    """When an episode ends."""

    time_out = TerminationTermCfg(func=mdp.time_out, time_out=True)
    torso_height = TerminationTermCfg(func=mdp.root_height_below_minimum, params={"minimum_height": 0.31})


@configclass
class LocomotionEnvCfg(ManagerBasedRLEnvCfg):
    """The whole environment: 120 Hz physics, 60 Hz control, episodes of 16 s."""

    scene: LocomotionSceneCfg = LocomotionSceneCfg(env_spacing=5.0)
    observations: ObservationsCfg = ObservationsCfg()
    actions: ActionsCfg = ActionsCfg()
    rewards: RewardsCfg = RewardsCfg()
    terminations: TerminationsCfg = TerminationsCfg()
    events: EventsCfg = EventsCfg()

    def __post_init__(self) -> None:
        """Set the rates, the friction and the camera."""
        self.decimation = 2
        self.episode_length_s = 16
        self.sim.dt = 1 / 120
        self.sim.render_interval = self.decimation
        self.sim.physics_material.static_friction = 1.0
        self.sim.physics_material.dynamic_friction = 1.0
        self.sim.default_visualizer_cfg = KitVisualizerCfg(
            origin_type="asset", origin_track_path="robot", focal_length=20.0
        )

    def know_joints(self, feet: list[str], gears: Mapping[str, float]) -> None:
        """Set what depends on the robot's bodies and joints.

        Args:
            feet: Bodies that walk.
            gears: Relative strengths of the joints.
        """
        self.observations.policy.feet_body_forces.params["sensor_cfg"] = Entity(
            "joint_wrench", body_names=feet, preserve_order=True
        )
        for term in (self.rewards.energy, self.rewards.joint_pos_limits):
            term.params["gear_ratio"] = gears
