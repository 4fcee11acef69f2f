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

import isaaclab_tasks.core.velocity.velocity_env_cfg as stock
from isaaclab.assets import ArticulationCfg, AssetBaseCfg
from isaaclab.envs import ManagerBasedRLEnvCfg
from isaaclab.managers import CurriculumTermCfg, RewardTermCfg, TerminationTermCfg
from isaaclab.managers import ObservationTermCfg as TermCfg
from isaaclab.managers import SceneEntityCfg as Entity
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.sensors import RayCasterCfg, patterns
from isaaclab.terrains import TerrainImporterCfg
from isaaclab.utils import configclass
from isaaclab.utils.noise import UniformNoiseCfg as Noise
from isaaclab_tasks.core.velocity import mdp

from ledger_lab.tasks.assets.robots import anymal_c_cfg, go2_cfg
from ledger_lab.tasks.parts import camera_cfg, ground_cfg, light_cfg
from ledger_lab.tasks.velocity.commands import TrackedVelocityCommand, TrackedVelocityCommandCfg
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
SCENE, EVENTS = stock.MySceneCfg(num_envs=1, env_spacing=2.5), stock.EventsCfg()


def _contacts(bodies: str | list[str]) -> Entity:
    """Return bodies of the contact sensor in this order, because engines order them differently."""
    return Entity("contact_forces", body_names=bodies, preserve_order=True)


@configclass
class VelocitySceneCfg(InteractiveSceneCfg):
    """Ground, the robot of the factory, contact sensors and light."""

    ground: AssetBaseCfg | None = ground_cfg()
    terrain: TerrainImporterCfg | None = None
    robot: ArticulationCfg | None = None
    contact_forces = SCENE.contact_forces
    height_scanner: RayCasterCfg | None = None
    light = light_cfg()


@configclass
class CommandsCfg:
    """Velocity commands; on flat ground, redrawn every ten seconds."""

    base_velocity = TrackedVelocityCommandCfg(
        **vars(stock.CommandsCfg().base_velocity) | {"class_type": TrackedVelocityCommand, "debug_vis": False}
    )


@configclass
class EventsCfg:
    """Randomization of robots and episodes, and pushes."""

    add_base_mass = EVENTS.add_base_mass
    base_com = EVENTS.base_com
    reset_base = EVENTS.reset_base
    reset_robot_joints = EVENTS.reset_robot_joints
    push_robot = EVENTS.push_robot


@configclass
class RewardsCfg(stock.RewardsCfg):
    """Rewards, per second."""

    base_height_l2: RewardTermCfg | None = None
    progress = RewardTermCfg(func=progress, weight=2.0, params=COMMAND)
    turning = RewardTermCfg(func=turning, weight=1.0, params=COMMAND)
    keeping: RewardTermCfg | None = None
    fallen = RewardTermCfg(func=mdp.is_terminated, weight=-200.0)

    def __post_init__(self) -> None:
        """Set the rewards for following the command, and what differs on flat ground.

        With 0.5 m/s and 0.5 rad/s, a robot that ignores slow commands would get most of their reward; far from the
        command, these narrower rewards are flat, but progress and turning are not.
        """
        self.track_lin_vel_xy_exp.weight, self.track_ang_vel_z_exp.weight = 1.5, 0.75
        self.track_lin_vel_xy_exp.params["std"] = self.track_ang_vel_z_exp.params["std"] = 0.25
        self.dof_torques_l2.weight, self.feet_air_time.weight, self.flat_orientation_l2.weight = -2.5e-5, 0.5, -5.0
        self.dof_pos_limits = None


@configclass
class TerminationsCfg(stock.TerminationsCfg):
    """Terminations."""

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
    """The whole environment on flat ground: 200 Hz physics, 50 Hz control, episodes of 20 s.

    The policy observes 48 numbers, and 54 heights on rough ground.
    """

    scene: VelocitySceneCfg = VelocitySceneCfg(env_spacing=2.5)
    observations: stock.ObservationsCfg = stock.ObservationsCfg()
    actions: stock.ActionsCfg = stock.ActionsCfg()
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
        self.sim.default_visualizer_cfg = camera_cfg((1.5, -1.7, 0.6), (0.0, 0.0, -0.15), follows="robot")
        self.observations.policy.height_scan = None

    def play_mode(self) -> None:
        """Play without pushes."""
        super().play_mode()
        self.events.push_robot.params["velocity_range"] = {}  # the term stays: a run may override its settings


@configclass
class Go2ObservationsCfg(stock.ObservationsCfg):
    """Additional observation of Go2: the phase of its trot."""

    @configclass
    class PolicyCfg(stock.ObservationsCfg.PolicyCfg):
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


def flat_anymal_c() -> VelocityEnvCfg:
    """Return ANYmal-C on flat ground."""
    return _anymal_c("flat_anymal_c")


def rough_anymal_c() -> VelocityEnvCfg:
    """Return ANYmal-C on rough ground, with a height scan."""
    cfg = _anymal_c("rough_anymal_c")
    cfg.scene.ground, cfg.scene.terrain = None, rough_terrain()
    cfg.scene.height_scanner = SCENE.height_scanner.replace(
        pattern_cfg=patterns.GridPatternCfg(resolution=0.2, size=[1.6, 1.0]), update_period=CONTROL_S
    )
    cfg.observations.policy.height_scan = stock.ObservationsCfg().policy.height_scan.replace(
        noise=Noise(n_min=-0.01, n_max=0.01),  # a tenth of Isaac Lab's: the lowest steps have 3 cm
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


def flat_go2() -> VelocityEnvCfg:
    """Return Go2 on flat ground."""
    cfg = Go2EnvCfg()
    cfg.scene.num_envs, cfg.scene.robot = velocity("flat_go2").num_envs, go2_cfg()
    cfg.actions.joint_pos.scale = 0.25
    cfg.rewards.dof_torques_l2.weight = -2.0e-4
    # without this, a level robot without contacts may crouch forever; 0.3 m is its height in a trot
    cfg.rewards.base_height_l2 = RewardTermCfg(func=mdp.base_height_l2, weight=-30.0, params={"target_height": 0.3})
    cfg.rewards.flat_orientation_l2.weight = -2.5
    # without the phase, it trembled in place, moved by the noise of its actions
    cfg.rewards.in_step.params["sensor_cfg"] = _contacts([f"{leg}_foot" for leg in ("FL", "FR", "RL", "RR")])
    cfg.rewards.feet_air_time = cfg.rewards.undesired_contacts = None
    cfg.rewards.action_rate_l2.weight = -0.005
    return cfg


def _anymal_c(task: str) -> VelocityEnvCfg:
    """Return ANYmal-C on flat ground.

    Args:
        task: Ground and robot, as in the name of the recipe.
    """
    cfg, legs = VelocityEnvCfg(), ("LF", "LH", "RF", "RH")
    cfg.scene.num_envs, cfg.scene.robot = velocity(task).num_envs, anymal_c_cfg()
    cfg.rewards.feet_air_time.params["sensor_cfg"] = _contacts([f"{leg}_FOOT" for leg in legs])
    cfg.rewards.undesired_contacts.params["sensor_cfg"] = _contacts([f"{leg}_THIGH" for leg in legs])
    return cfg
