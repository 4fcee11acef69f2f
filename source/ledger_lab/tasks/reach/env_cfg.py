"""Scene, observations, actions, rewards, terminations, events and commands of ``LedgerLab-Reach-Franka``.

The task is Isaac Lab's own (``Isaac-Reach-Franka`` with its preset ``hold``), with the same names, starts,
observations and goal positions, on assets that need no network. The differences make the task learnable on a CPU.
Actions move the joints relative to their present positions. The motors are stiff and compensate gravity, as those of
the real arm do. Episodes last 3 s instead of 12, with physics at 60 Hz instead of 120. The hand turns by up to a
quarter turn to either side, which covers every grasp direction of a parallel gripper. The policy also observes the
error of the pose. Pose errors have ten times the weight, with one more term for the last centimeters. A goal counts as
reached at 2 cm instead of 5, and this does not end the episode. Penalties on motion are at least those at the end of
Isaac Lab's curriculum; there is no penalty on large actions. The panel decides what counts as success.
"""

import math

import isaaclab.envs.mdp as mdp
import isaaclab_tasks.core.reach.reach_env_cfg as stock
from isaaclab.assets import ArticulationCfg
from isaaclab.envs import ManagerBasedRLEnvCfg
from isaaclab.managers import EventTermCfg, ObservationTermCfg, RewardTermCfg, TerminationTermCfg
from isaaclab.managers import SceneEntityCfg as Entity
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.utils import configclass
from isaaclab_newton.physics import NewtonCfg

from ledger_lab.tasks.assets.robots import franka_cfg
from ledger_lab.tasks.parts import EnginesCfg, camera_cfg, ground_cfg, light_cfg, mjwarp
from ledger_lab.tasks.reach.recipe import REACH
from ledger_lab.tasks.reach.terms import pose_error

ARM, FINGERS = "panda_joint.*", "panda_finger_joint.*"
HAND = Entity("robot", body_names="panda_hand")
COMMAND = "ee_pose"
GOAL = stock.CommandsCfg().ee_pose


def closed_franka() -> ArticulationCfg:
    """Return the arm at its default pose; its fingers are closed, and no action moves them."""
    robot = franka_cfg()
    robot.init_state.joint_pos |= {FINGERS: 0.0}
    return robot


@configclass
class ReachPhysicsCfg(EnginesCfg):
    """Physics engines, with room for the contacts of the task."""

    # measured with a policy that reaches: 9 constraint rows. An arm that presses onto itself and the ground with full
    # force needs 169, and 11 contacts; such an episode is invalid.
    newton_mjwarp: NewtonCfg = mjwarp(100, 30, impratio=10)
    default: NewtonCfg = newton_mjwarp


@configclass
class ReachSceneCfg(InteractiveSceneCfg):
    """A robot on the ground, which serves as a table, and light."""

    ground = ground_cfg()
    robot: ArticulationCfg = closed_franka()
    light = light_cfg()


@configclass
class CommandsCfg:
    """Command: one goal pose per episode, in the frame of the base. The hand points down, turned about the vertical.

    With a pitch of 180°, a yaw of 180° is that of the default pose.
    """

    ee_pose = GOAL.replace(
        body_name="panda_hand",
        resampling_time_range=(1.0e9, 1.0e9),
        debug_vis=False,
        position_success_threshold=0.02,
        ranges=GOAL.ranges.replace(pitch=(math.pi, math.pi), yaw=(0.5 * math.pi, 1.5 * math.pi)),
    )


@configclass
class ActionsCfg:
    """One action per joint of the arm: the target relative to the present position, 0.2 rad per unit."""

    arm_action = mdp.RelativeJointPositionActionCfg(asset_name="robot", joint_names=[ARM], scale=0.2)


@configclass
class ObservationsCfg:
    """Observations: joints, goal, last action, and the error of the pose."""

    @configclass
    class PolicyCfg(stock.ObservationsCfg.PolicyCfg):
        """Observations of the policy, in order; shape (num_envs, 38)."""

        ee_target_error = ObservationTermCfg(func=pose_error, params={"command_name": COMMAND})

    policy: PolicyCfg = PolicyCfg()


@configclass
class EventsCfg:
    """Initial states: near the default pose, at rest."""

    reset_all = EventTermCfg(func=mdp.reset_scene_to_default, mode="reset")
    reset_robot_joints = EventTermCfg(
        func=mdp.reset_joints_by_offset,
        mode="reset",
        params={
            "asset_cfg": Entity("robot", joint_names=ARM),
            "position_range": (-0.1, 0.1),
            "velocity_range": (0.0, 0.0),
        },
    )


@configclass
class RewardsCfg:
    """Rewards, per second."""

    end_effector_position_tracking = RewardTermCfg(
        func=mdp.position_command_error, weight=-2.0, params={"asset_cfg": HAND, "command_name": COMMAND}
    )
    end_effector_position_tracking_fine_grained = RewardTermCfg(
        func=mdp.position_command_error_tanh,
        weight=1.0,
        params={"asset_cfg": HAND, "command_name": COMMAND, "std": 0.05},
    )
    end_effector_orientation_tracking = RewardTermCfg(
        func=mdp.orientation_command_error, weight=-1.0, params={"asset_cfg": HAND, "command_name": COMMAND}
    )
    success = RewardTermCfg(func=mdp.pose_command_success, weight=1.0, params={"command_name": COMMAND})
    action_rate = RewardTermCfg(func=mdp.action_rate_l2, weight=-0.005)
    joint_vel = RewardTermCfg(
        func=mdp.joint_vel_l2, weight=-0.001, params={"asset_cfg": Entity("robot", joint_names=ARM)}
    )


@configclass
class TerminationsCfg:
    """Termination: only the time."""

    time_out = TerminationTermCfg(func=mdp.time_out, time_out=True)


@configclass
class ReachEnvCfg(ManagerBasedRLEnvCfg):
    """The whole environment: 60 Hz physics, 30 Hz control, episodes of 3 s."""

    scene: ReachSceneCfg = ReachSceneCfg(num_envs=REACH.num_envs, env_spacing=2.5)
    observations: ObservationsCfg = ObservationsCfg()
    actions: ActionsCfg = ActionsCfg()
    commands: CommandsCfg = CommandsCfg()
    rewards: RewardsCfg = RewardsCfg()
    terminations: TerminationsCfg = TerminationsCfg()
    events: EventsCfg = EventsCfg()

    def __post_init__(self) -> None:
        """Set the rates, the physics engine and the camera."""
        self.decimation = 2
        self.episode_length_s = 3.0
        self.sim.dt = 1 / 60
        self.sim.render_interval = self.decimation
        self.sim.physics = ReachPhysicsCfg()
        self.sim.default_visualizer_cfg = camera_cfg((1.6, -1.2, 0.9), (0.25, 0.0, 0.35))
