"""Scene, observations, actions, rewards, terminations, events, commands and curriculum of the lifting arm.

The task is Isaac Lab's own (``IsaacContrib-Lift-Cube-Franka``), with the same names, goals, initial cube positions and
kinds of rewards for reaching, lifting and holding, on assets that need no network. The differences make the task
learnable on a CPU. Actions come at 25 Hz instead of 50, and move the joints relative to their present positions. The
motors are stiff and compensate gravity, as those of the real arm do. The hand starts above the cube. The policy also
observes the distances to the cube and to the goal. Pointing down and a closed grasp have their own rewards; closed
fingers near the cube earn nothing. The weights differ, and penalties on motion are constant. A cube out of reach ends
the episode. Most training episodes start with the cube in the gripper, or on the way to it.
The panel decides what counts as success.
"""

import isaaclab.envs.mdp as mdp
import isaaclab.sim as sim_utils
from isaaclab.assets import ArticulationCfg, RigidObjectCfg
from isaaclab.envs import ManagerBasedRLEnvCfg
from isaaclab.managers import (
    CurriculumTermCfg,
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)
from isaaclab.managers import SceneEntityCfg as Entity
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.utils import configclass
from isaaclab_newton.physics import NewtonCfg
from isaaclab_newton.sim.schemas import MujocoCollisionCfg
from isaaclab_physx.sim.schemas import PhysxRigidBodyCfg

from ledger_lab.tasks.assets.robots import franka_cfg
from ledger_lab.tasks.lift.recipe import LIFT
from ledger_lab.tasks.lift.starts import BeginAtObject, share_of_starts
from ledger_lab.tasks.lift.terms import (
    fingertips_to_object,
    grasped,
    lifted,
    near_goal,
    near_object,
    object_position,
    object_to_goal,
    out_of_reach,
    pointing_down,
)
from ledger_lab.tasks.parts import EnginesCfg, camera_cfg, ground_cfg, light_cfg, mjwarp

ARM, FINGERS = "panda_joint.*", "panda_finger_joint.*"
HAND = Entity("robot", body_names="panda_hand")
FINGER_JOINTS = Entity("robot", joint_names=FINGERS)
COMMAND = "object_pose"
LIFTED_M = 0.04
"""Height of the cube's center above which it counts as lifted [m]; on the ground, it is at 0.02 m."""


def hovering_franka() -> ArticulationCfg:
    """Return the arm with an open hand 25 cm above the ground that points down at the cube."""
    robot = franka_cfg()
    # MuJoCo's contacts depend on inertia, not on damping: fingers of 15 g on such stiff drives would oscillate in and
    # out of the cube. So they carry the inertia of the gripper's drive.
    robot.actuators["panda_hand"].armature = 0.5
    hover = (0.0, 0.1591, 0.0, -2.3988, 0.0, 2.5578, 0.7854)
    robot.init_state.joint_pos = {f"panda_joint{n}": q for n, q in enumerate(hover, 1)} | {FINGERS: 0.04}
    return robot


@configclass
class LiftPhysicsCfg(EnginesCfg):
    """Physics engines, with room for the contacts of the task."""

    # measured in training and with a policy that lifts: 113 constraint rows, and a mean of 32 contacts
    # contacts cannot be stiffer than two steps allow; with 2 substeps, the cube slips out of the grasp
    newton_mjwarp: NewtonCfg = mjwarp(160, 48, impratio=10, num_substeps=4)
    default: NewtonCfg = newton_mjwarp


@configclass
class LiftSceneCfg(InteractiveSceneCfg):
    """A robot and a cube on the ground, which serves as a table, and light."""

    ground = ground_cfg()
    robot: ArticulationCfg = hovering_franka()
    object: RigidObjectCfg = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Object",
        init_state=RigidObjectCfg.InitialStateCfg(pos=(0.5, 0.0, 0.02)),
        spawn=sim_utils.CuboidCfg(
            size=(0.04, 0.04, 0.04),
            rigid_props=PhysxRigidBodyCfg(max_depenetration_velocity=5.0),
            mass_props=sim_utils.MassCfg(mass=0.1),
            collision_props=[
                sim_utils.UsdPhysicsCollisionCfg(),
                # MuJoCo's default contacts give way by centimeters if a finger of 15 g presses with 40 N; these, by a
                # millimeter
                MujocoCollisionCfg(priority=1, solref=(0.01, 1.0), solimp=(0.95, 0.99, 0.001, 0.5, 2.0)),
            ],
            visual_material=sim_utils.PreviewSurfaceCfg(diffuse_color=(0.9, 0.45, 0.1)),
        ),
    )
    light = light_cfg()


@configclass
class CommandsCfg:
    """Command: one goal position of the cube per episode, in the frame of the base."""

    object_pose = mdp.UniformPoseCommandCfg(
        asset_name="robot",
        body_name="panda_hand",
        resampling_time_range=(1.0e9, 1.0e9),
        debug_vis=False,
        ranges=mdp.UniformPoseCommandCfg.Ranges(
            pos_x=(0.4, 0.6), pos_y=(-0.25, 0.25), pos_z=(0.25, 0.5), roll=(0.0, 0.0), pitch=(0.0, 0.0), yaw=(0.0, 0.0)
        ),
    )


@configclass
class ActionsCfg:
    """One action per joint of the arm: the target relative to the present position, 0.2 rad per unit.

    The sign of one more action opens or closes the gripper.
    """

    arm_action = mdp.RelativeJointPositionActionCfg(asset_name="robot", joint_names=[ARM], scale=0.2)
    gripper_action = mdp.BinaryJointPositionActionCfg(
        asset_name="robot",
        joint_names=[FINGERS],
        open_command_expr={FINGERS: 0.04},
        close_command_expr={FINGERS: 0.0},
    )


@configclass
class ObservationsCfg:
    """Observations: joints, cube, goal, last action, and the offsets to the cube and to the goal."""

    @configclass
    class PolicyCfg(ObservationGroupCfg):
        """Observations of the policy, in order; shape (num_envs, 42)."""

        joint_pos = ObservationTermCfg(func=mdp.joint_pos_rel)
        joint_vel = ObservationTermCfg(func=mdp.joint_vel_rel)
        object_position = ObservationTermCfg(func=object_position)
        target_object_position = ObservationTermCfg(func=mdp.generated_commands, params={"command_name": COMMAND})
        actions = ObservationTermCfg(func=mdp.last_action)
        fingertips_to_object = ObservationTermCfg(func=fingertips_to_object, params={"hand": HAND})
        object_to_goal = ObservationTermCfg(func=object_to_goal, params={"command_name": COMMAND})

    policy: PolicyCfg = PolicyCfg()


@configclass
class EventsCfg:
    """Initial states: the arm at its default pose, the cube anywhere in front of it."""

    reset_all = EventTermCfg(func=mdp.reset_scene_to_default, mode="reset")
    reset_object_position = EventTermCfg(
        func=mdp.reset_root_state_uniform,
        mode="reset",
        params={
            "pose_range": {"x": (-0.1, 0.1), "y": (-0.25, 0.25), "z": (0.0, 0.0)},
            "velocity_range": {},
            "asset_cfg": Entity("object"),
        },
    )
    begin_at_object = EventTermCfg(
        func=BeginAtObject,
        mode="reset",
        params={
            "share": 0.0,  # the curriculum raises this share for training episodes only, not for held-out ones
            "held_share": 0.4,
            "height_m": (0.0, 0.4),
            "width_m": 0.04,
            "hand": HAND,
            "fingers": FINGER_JOINTS,
        },
    )


@configclass
class CurriculumCfg:
    """Curriculum: training episodes that start with the cube in the gripper, or on the way to it."""

    begin_at_object = CurriculumTermCfg(func=share_of_starts, params={"term_name": "begin_at_object", "share": 0.6})


@configclass
class RewardsCfg:
    """Rewards, per second."""

    reaching_object = RewardTermCfg(
        func=near_object, weight=3.0, params={"std": 0.1, "opening_m": 0.035, "hand": HAND, "fingers": FINGER_JOINTS}
    )
    hand_down = RewardTermCfg(func=pointing_down, weight=0.5, params={"hand": HAND})
    grasping_object = RewardTermCfg(
        func=grasped, weight=3.0, params={"within_m": 0.02, "opening_m": 0.045, "hand": HAND, "fingers": FINGER_JOINTS}
    )
    lifting_object = RewardTermCfg(func=lifted, weight=6.0, params={"minimal_height": LIFTED_M})
    object_goal_tracking = RewardTermCfg(
        func=near_goal, weight=12.0, params={"std": 0.3, "minimal_height": LIFTED_M, "command_name": COMMAND}
    )
    object_goal_tracking_fine_grained = RewardTermCfg(
        func=near_goal, weight=8.0, params={"std": 0.05, "minimal_height": LIFTED_M, "command_name": COMMAND}
    )
    action_rate = RewardTermCfg(func=mdp.action_rate_l2, weight=-1e-4)
    joint_vel = RewardTermCfg(func=mdp.joint_vel_l2, weight=-1e-4)


@configclass
class TerminationsCfg:
    """Terminations: the time is over, or the cube is out of reach."""

    time_out = TerminationTermCfg(func=mdp.time_out, time_out=True)
    object_out_of_reach = TerminationTermCfg(func=out_of_reach, params={"radius_m": 0.9})


@configclass
class LiftEnvCfg(ManagerBasedRLEnvCfg):
    """The whole environment: 100 Hz physics, 25 Hz control, episodes of 5 s."""

    scene: LiftSceneCfg = LiftSceneCfg(num_envs=LIFT.num_envs, env_spacing=2.5)
    observations: ObservationsCfg = ObservationsCfg()
    actions: ActionsCfg = ActionsCfg()
    commands: CommandsCfg = CommandsCfg()
    rewards: RewardsCfg = RewardsCfg()
    terminations: TerminationsCfg = TerminationsCfg()
    events: EventsCfg = EventsCfg()
    curriculum: CurriculumCfg = CurriculumCfg()

    def __post_init__(self) -> None:
        """Set the rates, the physics engine and the camera."""
        self.decimation = 4
        self.episode_length_s = 5.0
        self.sim.dt = 1 / 100
        self.sim.render_interval = self.decimation
        self.sim.physics = LiftPhysicsCfg()
        self.sim.default_visualizer_cfg = camera_cfg((1.6, -1.2, 0.9), (0.25, 0.0, 0.35))

    def play_mode(self) -> None:
        """Play whole episodes: none starts on the way to the cube."""
        super().play_mode()
        self.curriculum.begin_at_object.params["share"] = 0.0
