"""Scene, observations, actions, rewards, terminations and events of the velocity tasks.

The tasks are Isaac Lab's own (``Isaac-Velocity-*``): the same commands, observations in the same order, actions and
initial states, on robots and ground that need no network. The differences are these. The reward for following the
command is 1.5 times as large, and narrower. All progress in the commanded direction is rewarded (``progress``), and so
is turning (``turning``). The penalty of a fall is that of Isaac Lab's H1, and a robot that tips over has fallen, too.
On rough ground, ANYmal observes 54 heights instead of 187, at a scale of 5 and with a tenth of the noise. Stairs are
lower and their treads wider; boxes are lower, and scattered on a plane. Robots are also rewarded for keeping as close
to the command as the panel asks (``keeping``). They train on all levels from the start, and more often where they
sometimes fail (``curriculum``). An episode on rough ground is one command of 6 s, and ends if the robot leaves the
terrain. Go2's other rewards are those of Isaac Lab's Go2, except for its height and the phase of a trot, which it
observes and is rewarded for keeping (``flat_go2``). The friction of the ground is always 1. The factories at the end
hold the settings of each robot and each ground. The panel decides what counts as success.
"""

import math
from dataclasses import MISSING, dataclass

from isaaclab.assets import ArticulationCfg, AssetBaseCfg
from isaaclab.envs import ManagerBasedRLEnvCfg
from isaaclab.managers import CurriculumTermCfg, EventTermCfg, RewardTermCfg, TerminationTermCfg
from isaaclab.managers import ObservationGroupCfg as GroupCfg
from isaaclab.managers import ObservationTermCfg as TermCfg
from isaaclab.managers import SceneEntityCfg as Entity
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.sensors import ContactSensorCfg, RayCasterCfg, patterns
from isaaclab.terrains import TerrainImporterCfg
from isaaclab.utils import configclass
from isaaclab.utils.noise import UniformNoiseCfg as Noise
from isaaclab_tasks.core.velocity import mdp
from isaaclab_visualizers.kit import KitVisualizerCfg

from ledger_lab.tasks.assets.anymal_c import anymal_c_cfg
from ledger_lab.tasks.assets.go2 import go2_cfg
from ledger_lab.tasks.parts import ground_cfg, light_cfg
from ledger_lab.tasks.velocity.commands import TrackedVelocityCommandCfg
from ledger_lab.tasks.velocity.curriculum import FrontierPatches
from ledger_lab.tasks.velocity.gait import gait_phase, in_step
from ledger_lab.tasks.velocity.keeping import Keeping
from ledger_lab.tasks.velocity.physics import RoughPhysicsCfg, VelocityPhysicsCfg
from ledger_lab.tasks.velocity.progress import progress, turning
from ledger_lab.tasks.velocity.recipe import velocity
from ledger_lab.tasks.velocity.terrain import rough_terrain

CONTROL_S = 0.02
"""Time between two actions [s]."""
COMMAND = {"command_name": "base_velocity"}
TROT_S = 0.48
"""Length of a cycle of Go2's trot [s]: twelve actions on each pair of feet."""


@dataclass(frozen=True, kw_only=True)
class Walker:
    """Properties of a four-legged robot that these tasks use."""

    robot: ArticulationCfg
    """The robot; its base is named ``base``."""
    feet: list[str]
    """Feet."""
    thighs: list[str]
    """Bodies whose contacts are penalized."""
    action_scale: float
    """Offset of a unit action from a joint's default position [rad]."""
    torque_weight: float
    """Weight of the penalty on squared torques; smaller for stronger robots."""


def _anymal_c() -> Walker:
    """Return ANYmal-C."""
    return Walker(
        robot=anymal_c_cfg(),
        feet=[f"{leg}_FOOT" for leg in ("LF", "LH", "RF", "RH")],
        thighs=[f"{leg}_THIGH" for leg in ("LF", "LH", "RF", "RH")],
        action_scale=0.5,
        torque_weight=-2.5e-5,
    )


def _go2() -> Walker:
    """Return Go2."""
    return Walker(
        robot=go2_cfg(),
        feet=[f"{leg}_foot" for leg in ("FL", "FR", "RL", "RR")],
        thighs=[f"{leg}_thigh" for leg in ("FL", "FR", "RL", "RR")],
        action_scale=0.25,
        torque_weight=-2.0e-4,
    )


def _contacts(bodies: str | list[str]) -> Entity:
    """Return bodies of the contact sensor in this order, because engines order them differently."""
    return Entity("contact_forces", body_names=bodies, preserve_order=True)


@configclass
class VelocitySceneCfg(InteractiveSceneCfg):
    """Ground, the robot of the factory, contact sensors and light."""

    ground: AssetBaseCfg | None = ground_cfg()
    terrain: TerrainImporterCfg | None = None
    robot: ArticulationCfg = MISSING
    contact_forces = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Robot/[^/]*", history_length=3, track_air_time=True)
    height_scanner: RayCasterCfg | None = None
    light = light_cfg()


@configclass
class CommandsCfg:
    """Velocity commands; on flat ground, redrawn every ten seconds."""

    base_velocity = TrackedVelocityCommandCfg(
        asset_name="robot",
        resampling_time_range=(10.0, 10.0),
        rel_standing_envs=0.02,
        rel_heading_envs=1.0,
        heading_command=True,
        heading_control_stiffness=0.5,
        debug_vis=False,
        ranges=TrackedVelocityCommandCfg.Ranges(
            lin_vel_x=(-1.0, 1.0), lin_vel_y=(-1.0, 1.0), ang_vel_z=(-1.0, 1.0), heading=(-math.pi, math.pi)
        ),
    )


@configclass
class ActionsCfg:
    """One action per joint: its target, relative to the default position."""

    joint_pos = mdp.JointPositionActionCfg(asset_name="robot", joint_names=[".*"], scale=0.5, use_default_offset=True)


@configclass
class ObservationsCfg:
    """Observations: motion of the base, command, joints and last action."""

    @configclass
    class PolicyCfg(GroupCfg):
        """Observations of the policy, in order; shape (num_envs, 48), and 54 heights on rough ground."""

        base_lin_vel = TermCfg(func=mdp.base_lin_vel, noise=Noise(n_min=-0.1, n_max=0.1))
        base_ang_vel = TermCfg(func=mdp.base_ang_vel, noise=Noise(n_min=-0.2, n_max=0.2))
        projected_gravity = TermCfg(func=mdp.projected_gravity, noise=Noise(n_min=-0.05, n_max=0.05))
        velocity_commands = TermCfg(func=mdp.generated_commands, params=COMMAND)
        joint_pos = TermCfg(func=mdp.joint_pos_rel, noise=Noise(n_min=-0.01, n_max=0.01))
        joint_vel = TermCfg(func=mdp.joint_vel_rel, noise=Noise(n_min=-1.5, n_max=1.5))
        actions = TermCfg(func=mdp.last_action)
        height_scan: TermCfg | None = None

        def __post_init__(self) -> None:
            """Add noise to the observations in training."""
            self.enable_corruption = True

    policy: PolicyCfg = PolicyCfg()


@configclass
class EventsCfg:
    """Randomization of robots and episodes, and pushes."""

    add_base_mass = EventTermCfg(
        func=mdp.randomize_rigid_body_mass,
        mode="startup",
        params={
            "asset_cfg": Entity("robot", body_names="base"),
            "mass_distribution_params": (1 / 1.25, 1.25),
            "operation": "scale",
            "distribution": "log_uniform",
        },
    )
    base_com = EventTermCfg(
        func=mdp.randomize_rigid_body_com,
        mode="startup",
        params={
            "asset_cfg": Entity("robot", body_names="base"),
            "com_range": {"x": (-0.05, 0.05), "y": (-0.05, 0.05), "z": (-0.01, 0.01)},
        },
    )
    reset_base = EventTermCfg(
        func=mdp.reset_root_state_uniform,
        mode="reset",
        params={
            "pose_range": {"x": (-0.5, 0.5), "y": (-0.5, 0.5), "yaw": (-3.14, 3.14)},
            "velocity_range": {axis: (-0.5, 0.5) for axis in ("x", "y", "z", "roll", "pitch", "yaw")},
        },
    )
    reset_robot_joints = EventTermCfg(
        func=mdp.reset_joints_by_scale,
        mode="reset",
        params={"position_range": (0.5, 1.5), "velocity_range": (0.0, 0.0)},
    )
    push_robot = EventTermCfg(
        func=mdp.push_by_setting_velocity,
        mode="interval",
        interval_range_s=(10.0, 15.0),
        params={"velocity_range": {"x": (-0.5, 0.5), "y": (-0.5, 0.5)}},
    )


@configclass
class RewardsCfg:
    """Rewards, per second."""

    # with 0.5 m/s and 0.5 rad/s, a robot that ignores slow commands would get most of their reward; far from the
    # command, these narrower rewards are flat, but progress and turning are not
    track_lin_vel_xy_exp = RewardTermCfg(func=mdp.track_lin_vel_xy_exp, weight=1.5, params={**COMMAND, "std": 0.25})
    track_ang_vel_z_exp = RewardTermCfg(func=mdp.track_ang_vel_z_exp, weight=0.75, params={**COMMAND, "std": 0.25})
    lin_vel_z_l2 = RewardTermCfg(func=mdp.lin_vel_z_l2, weight=-2.0)
    ang_vel_xy_l2 = RewardTermCfg(func=mdp.ang_vel_xy_l2, weight=-0.05)
    dof_torques_l2 = RewardTermCfg(func=mdp.joint_torques_l2, weight=-2.5e-5)
    dof_acc_l2 = RewardTermCfg(func=mdp.joint_acc_l2, weight=-2.5e-7)
    action_rate_l2 = RewardTermCfg(func=mdp.action_rate_l2, weight=-0.01)
    feet_air_time = RewardTermCfg(func=mdp.feet_air_time, weight=0.5, params={**COMMAND, "threshold": 0.5})
    undesired_contacts = RewardTermCfg(func=mdp.undesired_contacts, weight=-1.0, params={"threshold": 1.0})
    flat_orientation_l2: RewardTermCfg | None = RewardTermCfg(func=mdp.flat_orientation_l2, weight=-5.0)
    base_height_l2: RewardTermCfg | None = None
    progress = RewardTermCfg(func=progress, weight=2.0, params=COMMAND)
    turning = RewardTermCfg(func=turning, weight=1.0, params=COMMAND)
    keeping: RewardTermCfg | None = None
    fallen = RewardTermCfg(func=mdp.is_terminated, weight=-200.0)


@configclass
class TerminationsCfg:
    """Terminations."""

    time_out = TerminationTermCfg(func=mdp.time_out, time_out=True)
    base_contact = TerminationTermCfg(
        func=mdp.illegal_contact, params={"sensor_cfg": _contacts("base"), "threshold": 1.0}
    )
    tipped_over = TerminationTermCfg(func=mdp.bad_orientation, params={"limit_angle": 1.2})
    off_the_terrain: TerminationTermCfg | None = None


@configclass
class CurriculumCfg:
    """Curriculum on rough ground."""

    frontier_patches = CurriculumTermCfg(
        func=FrontierPatches, params={"reward_name": "keeping", "memory": 0.95, "hold_s": 2.0}
    )


@configclass
class VelocityEnvCfg(ManagerBasedRLEnvCfg):
    """The whole environment on flat ground: 200 Hz physics, 50 Hz control, episodes of 20 s."""

    scene: VelocitySceneCfg = VelocitySceneCfg(env_spacing=2.5)
    observations: ObservationsCfg = ObservationsCfg()
    actions: ActionsCfg = ActionsCfg()
    commands: CommandsCfg = CommandsCfg()
    rewards: RewardsCfg = RewardsCfg()
    terminations: TerminationsCfg = TerminationsCfg()
    events: EventsCfg = EventsCfg()
    curriculum: CurriculumCfg | None = None

    def __post_init__(self) -> None:
        """Set the rates, the physics engine, the friction and the camera."""
        self.decimation = 4
        self.episode_length_s = 20.0
        self.sim.dt = CONTROL_S / self.decimation
        self.sim.render_interval = self.decimation
        self.sim.physics = VelocityPhysicsCfg()
        self.sim.physics_material.static_friction = 1.0
        self.sim.physics_material.dynamic_friction = 1.0
        self.sim.default_visualizer_cfg = KitVisualizerCfg(
            eye=(1.5, -1.7, 0.6),
            lookat=(0.0, 0.0, -0.15),
            origin_type="asset",
            origin_track_path="robot",
            focal_length=20.0,
        )

    def play_mode(self) -> None:
        """Play without pushes."""
        super().play_mode()
        self.events.push_robot.params["velocity_range"] = {}  # the term stays: a run may override its settings


@configclass
class Go2ObservationsCfg(ObservationsCfg):
    """Additional observation of Go2: the phase of its trot."""

    @configclass
    class PolicyCfg(ObservationsCfg.PolicyCfg):
        """Observations of the policy, in order; shape (num_envs, 50)."""

        gait_phase = TermCfg(func=gait_phase, params={"period_s": TROT_S})

    policy: PolicyCfg = PolicyCfg()


@configclass
class Go2RewardsCfg(RewardsCfg):
    """Additional reward of Go2: keeping that phase."""

    in_step = RewardTermCfg(func=in_step, weight=1.5, params={**COMMAND, "period_s": TROT_S, "standing": 0.1})


@configclass
class Go2EnvCfg(VelocityEnvCfg):
    """The environment of Go2, with the phase of a trot."""

    observations: Go2ObservationsCfg = Go2ObservationsCfg()
    rewards: Go2RewardsCfg = Go2RewardsCfg()


def _walk[EnvCfg: VelocityEnvCfg](cfg: EnvCfg, task: str, walker: Walker) -> EnvCfg:
    """Put a robot on flat ground, and return the environment.

    Args:
        cfg: The environment.
        task: Ground and robot, as in the name of the recipe.
        walker: The robot.
    """
    cfg.scene.num_envs = velocity(task).num_envs
    cfg.scene.robot = walker.robot
    cfg.actions.joint_pos.scale = walker.action_scale
    cfg.rewards.dof_torques_l2.weight = walker.torque_weight
    cfg.rewards.feet_air_time.params["sensor_cfg"] = _contacts(walker.feet)
    cfg.rewards.undesired_contacts.params["sensor_cfg"] = _contacts(walker.thighs)
    return cfg


def _on_terrain(cfg: VelocityEnvCfg) -> VelocityEnvCfg:
    """Put a robot on rough ground, with a height scan."""
    cfg.scene.ground, cfg.scene.terrain = None, rough_terrain()
    cfg.scene.height_scanner = RayCasterCfg(
        prim_path="{ENV_REGEX_NS}/Robot/base",
        offset=RayCasterCfg.OffsetCfg(pos=(0.0, 0.0, 20.0)),
        ray_alignment="yaw",
        pattern_cfg=patterns.GridPatternCfg(resolution=0.2, size=[1.6, 1.0]),
        mesh_prim_paths=["/World/ground"],
        global_world_only=True,
        update_period=CONTROL_S,
    )
    cfg.observations.policy.height_scan = TermCfg(
        func=mdp.height_scan,
        params={"sensor_cfg": Entity("height_scanner")},
        noise=Noise(n_min=-0.01, n_max=0.01),  # a tenth of Isaac Lab's: the lowest steps have 3 cm
        clip=(-1.0, 1.0),
        scale=5.0,  # steps of 3 to 10 cm would be small compared with the other inputs
    )
    cfg.sim.physics = RoughPhysicsCfg()
    cfg.sim.default_visualizer_cfg.eye = (2.1, -2.4, 1.1)
    cfg.episode_length_s = 6.0  # as long as the panel's: later, many robots have left their patch
    cfg.commands.base_velocity.resampling_time_range = (20.0, 20.0)  # a command lasts for all of an episode
    cfg.curriculum = CurriculumCfg()
    cfg.rewards.flat_orientation_l2 = None
    cfg.rewards.dof_torques_l2.weight, cfg.rewards.feet_air_time.weight = -1.0e-5, 0.125  # as in Isaac Lab
    cfg.rewards.keeping = RewardTermCfg(
        func=Keeping, weight=0.5, params={**COMMAND, "linear_m_s": 0.25, "angular_rad_s": 0.25}
    )
    cfg.terminations.off_the_terrain = TerminationTermCfg(
        func=mdp.terrain_out_of_bounds, params={"distance_buffer": 2.0}, time_out=True
    )
    return cfg


def flat_anymal_c() -> VelocityEnvCfg:
    """Return ANYmal-C on flat ground."""
    return _walk(VelocityEnvCfg(), "flat_anymal_c", _anymal_c())


def rough_anymal_c() -> VelocityEnvCfg:
    """Return ANYmal-C on rough ground."""
    return _on_terrain(_walk(VelocityEnvCfg(), "rough_anymal_c", _anymal_c()))


def flat_go2() -> VelocityEnvCfg:
    """Return Go2 on flat ground."""
    walker = _go2()
    cfg = _walk(Go2EnvCfg(), "flat_go2", walker)
    # without this, a level robot without contacts may crouch forever; 0.3 m is its height in a trot
    cfg.rewards.base_height_l2 = RewardTermCfg(func=mdp.base_height_l2, weight=-30.0, params={"target_height": 0.3})
    cfg.rewards.flat_orientation_l2 = RewardTermCfg(func=mdp.flat_orientation_l2, weight=-2.5)
    # without the phase, it trembled in place, moved by the noise of its actions
    cfg.rewards.feet_air_time = None
    cfg.rewards.in_step.params["sensor_cfg"] = _contacts(walker.feet)
    cfg.rewards.action_rate_l2.weight = -0.005
    cfg.rewards.undesired_contacts = None
    return cfg
