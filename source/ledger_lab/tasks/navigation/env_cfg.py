"""Scene, observations, actions, rewards, terminations, events and commands of ``LedgerLab-Navigation-Flat-AnymalC``.

The task has the shape of Isaac Lab's (``IsaacContrib-Navigation-Flat-AnymalC``): a policy commands velocities five
times a second, and a frozen policy, which was trained on ``LedgerLab-Velocity-Flat-AnymalC``, walks. The differences
are these. There are pillars, which the robot must not hit; it observes them as a ring of distances on a logarithmic
scale. The goal is beyond the next gap or around the next pillar, and must be held; an episode takes 12 s instead of 8.
The policy also observes its turning rate and its last action, all with noise, and the goal's heading as cosine and
sine. Approaching the goal, turning to its heading and clearance have their own rewards. Changes of the action have a
penalty, and the penalty of a fall is a quarter of Isaac Lab's. The panel decides what counts as success.
"""

import math

from isaaclab.assets import ArticulationCfg
from isaaclab.envs import ManagerBasedRLEnvCfg
from isaaclab.managers import EventTermCfg, RewardTermCfg, TerminationTermCfg
from isaaclab.managers import ObservationGroupCfg as GroupCfg
from isaaclab.managers import ObservationTermCfg as TermCfg
from isaaclab.managers import SceneEntityCfg as Entity
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.sensors import ContactSensorCfg, RayCasterCfg, patterns
from isaaclab.utils import configclass
from isaaclab.utils.noise import UniformNoiseCfg as Noise
from isaaclab_newton.physics import NewtonCfg
from isaaclab_tasks.contrib.navigation import mdp

from ledger_lab.tasks.assets import PILLAR_SPACING_M, PILLARS_USD
from ledger_lab.tasks.navigation import terms
from ledger_lab.tasks.navigation.actions import WalkingPolicyActionCfg
from ledger_lab.tasks.navigation.commands import NeighbourPoseCommandCfg
from ledger_lab.tasks.navigation.recipe import NAVIGATION
from ledger_lab.tasks.parts import camera_cfg, ground_cfg, light_cfg, mjwarp
from ledger_lab.tasks.velocity.env_cfg import CONTROL_S, flat_anymal_c
from ledger_lab.tasks.velocity.physics import VelocityPhysicsCfg

WALKER = flat_anymal_c()
"""Task that the frozen policy was trained on."""
TURNS = 10
"""Joint actions of the frozen policy per velocity command."""
RAYS, REACH_M = 32, 4.0
ASIDE_M = 0.3
"""Largest distance of a start or a goal from the center of a cell, along x and along y [m]."""
COMMAND = {"command_name": "pose_command"}
LIDAR = {"sensor_cfg": Entity("lidar")}


@configclass
class NavigationPhysicsCfg(VelocityPhysicsCfg):
    """Physics engines of the walking task, with room for contacts with pillars."""

    # measured with a policy that navigates: 40 constraint rows, and a mean of 13 contacts
    newton_mjwarp: NewtonCfg = mjwarp(120, 40, impratio=10)
    default: NewtonCfg = newton_mjwarp


@configclass
class NavigationSceneCfg(InteractiveSceneCfg):
    """Pillars, the robot, its contact sensors, its ray caster, and light."""

    ground = ground_cfg(PILLARS_USD)
    robot: ArticulationCfg = WALKER.scene.robot
    contact_forces = ContactSensorCfg(
        prim_path="{ENV_REGEX_NS}/Robot/(base|[LR][FH]_THIGH)",
        history_length=TURNS * WALKER.decimation,  # so that no contact within an environment step is missed
    )
    lidar = RayCasterCfg(
        prim_path="{ENV_REGEX_NS}/Robot/base",
        mesh_prim_paths=["/World/ground/pillars"],
        ray_alignment="base",
        pattern_cfg=patterns.LidarPatternCfg(
            channels=1,
            vertical_fov_range=(0.0, 0.0),
            horizontal_fov_range=(-180.0, 180.0),
            horizontal_res=360.0 / RAYS,
        ),
        max_distance=REACH_M,
        global_world_only=True,
    )
    light = light_cfg()


@configclass
class CommandsCfg:
    """Command: one goal pose per episode, at least 2.4 m away."""

    pose_command = NeighbourPoseCommandCfg(
        asset_name="robot",
        resampling_time_range=(1.0e9, 1.0e9),
        debug_vis=False,
        cell_m=PILLAR_SPACING_M,
        ranges=NeighbourPoseCommandCfg.Ranges(
            pos_x=(-ASIDE_M, ASIDE_M), pos_y=(-ASIDE_M, ASIDE_M), heading=(-math.pi, math.pi)
        ),
    )


@configclass
class ActionsCfg:
    """Actions: velocities forward, sideways and of turning."""

    velocity = WalkingPolicyActionCfg(
        asset_name="robot",
        low_level_decimation=WALKER.decimation,
        low_level_actions=WALKER.actions.joint_pos,
        low_level_observations=WALKER.observations.policy,
    )


@configclass
class ObservationsCfg:
    """Observations: motion of the base, goal, last action, and distances to pillars."""

    @configclass
    class PolicyCfg(GroupCfg):
        """Observations of the policy, in order; shape (num_envs, 48)."""

        base_lin_vel = TermCfg(func=mdp.base_lin_vel, noise=Noise(n_min=-0.1, n_max=0.1))
        base_ang_vel = TermCfg(func=mdp.base_ang_vel, noise=Noise(n_min=-0.2, n_max=0.2))
        projected_gravity = TermCfg(func=mdp.projected_gravity, noise=Noise(n_min=-0.05, n_max=0.05))
        pose_command = TermCfg(func=terms.goal, params=COMMAND)
        actions = TermCfg(func=mdp.last_action)
        nearness = TermCfg(func=terms.nearness, params=LIDAR, noise=Noise(n_min=-0.05, n_max=0.05))

        def __post_init__(self) -> None:
            """Add noise to the observations in training."""
            self.enable_corruption = True

    policy: PolicyCfg = PolicyCfg()


@configclass
class EventsCfg:
    """Initial states: the robot stands in the middle of four pillars."""

    reset_base = EventTermCfg(
        func=terms.reset_in_cell,
        mode="reset",
        params={"cell_m": PILLAR_SPACING_M, "cells_per_side": 3, "aside_m": ASIDE_M},
    )
    reset_robot_joints = EventTermCfg(
        func=mdp.reset_joints_by_scale,
        mode="reset",
        params={"position_range": (0.9, 1.1), "velocity_range": (0.0, 0.0)},
    )


@configclass
class RewardsCfg:
    """Rewards, per second."""

    termination_penalty = RewardTermCfg(func=mdp.is_terminated, weight=-100.0)
    approach = RewardTermCfg(func=terms.approach, weight=2.0, params=COMMAND)
    turning = RewardTermCfg(func=terms.turning, weight=1.0, params=COMMAND)
    position_tracking = RewardTermCfg(func=mdp.position_command_error_tanh, weight=1.0, params={**COMMAND, "std": 2.0})
    position_tracking_fine_grained = RewardTermCfg(
        func=mdp.position_command_error_tanh, weight=1.0, params={**COMMAND, "std": 0.3}
    )
    orientation_tracking = RewardTermCfg(
        func=terms.turned_at_goal, weight=1.0, params={**COMMAND, "std": 0.5, "std_rad": 0.5}
    )
    clearance = RewardTermCfg(func=terms.too_near, weight=-2.0, params={**LIDAR, "within_m": 0.8})
    action_rate_l2 = RewardTermCfg(func=mdp.action_rate_l2, weight=-0.02)


@configclass
class TerminationsCfg:
    """Terminations: the time is over, a fall, or a contact of the trunk or a thigh."""

    time_out = TerminationTermCfg(func=mdp.time_out, time_out=True)
    collision = TerminationTermCfg(
        func=mdp.illegal_contact, params={"sensor_cfg": Entity("contact_forces", body_names=".*"), "threshold": 1.0}
    )
    tipped_over = TerminationTermCfg(func=mdp.bad_orientation, params={"limit_angle": 1.2})


@configclass
class NavigationEnvCfg(ManagerBasedRLEnvCfg):
    """The whole environment: 200 Hz physics, joint actions at 50 Hz, velocities at 5 Hz, episodes of 12 s.

    All robots share the same pillars (``scene.env_spacing`` is zero), and do not collide with each other.
    """

    scene: NavigationSceneCfg = NavigationSceneCfg(num_envs=NAVIGATION.num_envs, env_spacing=0.0)
    observations: ObservationsCfg = ObservationsCfg()
    actions: ActionsCfg = ActionsCfg()
    commands: CommandsCfg = CommandsCfg()
    rewards: RewardsCfg = RewardsCfg()
    terminations: TerminationsCfg = TerminationsCfg()
    events: EventsCfg = EventsCfg()

    def __post_init__(self) -> None:
        """Set the rates, the physics engine, the friction and the camera."""
        self.decimation = TURNS * WALKER.decimation
        self.episode_length_s = 12.0
        self.sim.dt = CONTROL_S / WALKER.decimation
        self.sim.render_interval = self.decimation
        self.sim.physics = NavigationPhysicsCfg()
        # With Newton's own motors, a whole environment step would use a single action.
        self.sim.use_newton_actuators = False
        self.sim.physics_material.static_friction = 1.0
        self.sim.physics_material.dynamic_friction = 1.0
        self.sim.default_visualizer_cfg = camera_cfg((2.5, -4.0, 4.0), (0.0, 0.0, -0.3), follows="robot")
