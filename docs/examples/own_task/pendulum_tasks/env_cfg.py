"""The environment: scene, physics engines, actions, observations, events, rewards and terminations."""

import math
from pathlib import Path

import isaaclab.envs.mdp as mdp
import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg, AssetBaseCfg
from isaaclab.envs import ManagerBasedRLEnvCfg
from isaaclab.managers import (
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SceneEntityCfg,
    TerminationTermCfg,
)
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.utils import configclass
from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg
from isaaclab_ov.physics import OvPhysxCfg
from isaaclab_tasks.utils import PresetCfg

from pendulum_tasks import terms

HINGE = SceneEntityCfg("pendulum", joint_names=["hinge"])


@configclass
class PhysicsCfg(PresetCfg):
    """Physics engines; ``physics=NAME`` on the command line chooses one."""

    newton_mjwarp: NewtonCfg = NewtonCfg(solver_cfg=MJWarpSolverCfg(njmax=5, nconmax=1), use_cuda_graph=True)
    ovphysx: OvPhysxCfg = OvPhysxCfg()
    default: NewtonCfg = newton_mjwarp


@configclass
class SceneCfg(InteractiveSceneCfg):
    """Ground, light and pendulum."""

    ground = AssetBaseCfg(prim_path="/World/ground", spawn=sim_utils.GroundPlaneCfg())
    light = AssetBaseCfg(prim_path="/World/light", spawn=sim_utils.DomeLightCfg(intensity=2000.0))
    pendulum = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Pendulum",
        spawn=sim_utils.UsdFileCfg(usd_path=str(Path(__file__).with_name("pendulum.usda"))),
        init_state=ArticulationCfg.InitialStateCfg(pos=(0.0, 0.0, 1.5)),
        # The motor cannot lift the rod at once: that takes 4.9 N·m. It has to swing.
        actuators={"motor": ImplicitActuatorCfg(joint_names_expr=["hinge"], stiffness=0.0, damping=0.05)},
    )


@configclass
class ActionsCfg:
    """One action between -1 and 1: the torque on the hinge."""

    torque = mdp.JointEffortActionCfg(
        asset_name="pendulum", joint_names=["hinge"], scale=2.5, clip={"hinge": (-2.5, 2.5)}
    )


@configclass
class ObservationsCfg:
    """What the policy sees."""

    @configclass
    class PolicyCfg(ObservationGroupCfg):
        """Sine and cosine of the angle, and the angular velocity; shape (num_envs, 3)."""

        direction = ObservationTermCfg(func=terms.direction, params={"asset_cfg": HINGE})
        joint_vel = ObservationTermCfg(func=mdp.joint_vel_rel, params={"asset_cfg": HINGE}, scale=0.2)

    policy: PolicyCfg = PolicyCfg()


@configclass
class EventsCfg:
    """How an episode starts: at any angle, with some velocity."""

    start = EventTermCfg(
        func=mdp.reset_joints_by_offset,
        mode="reset",
        params={"asset_cfg": HINGE, "position_range": (-math.pi, math.pi), "velocity_range": (-1.0, 1.0)},
    )


@configclass
class RewardsCfg:
    """What is rewarded, per second."""

    height = RewardTermCfg(func=terms.height, weight=1.0, params={"asset_cfg": HINGE})
    speed = RewardTermCfg(func=mdp.joint_vel_l2, weight=-0.02, params={"asset_cfg": HINGE})
    effort = RewardTermCfg(func=mdp.action_l2, weight=-0.05)


@configclass
class TerminationsCfg:
    """An episode ends by time alone."""

    time_out = TerminationTermCfg(func=mdp.time_out, time_out=True)


@configclass
class PendulumEnvCfg(ManagerBasedRLEnvCfg):
    """The environment: 120 Hz physics, 30 Hz control, episodes of 5 s."""

    scene: SceneCfg = SceneCfg(num_envs=256, env_spacing=2.5)
    actions: ActionsCfg = ActionsCfg()
    observations: ObservationsCfg = ObservationsCfg()
    events: EventsCfg = EventsCfg()
    rewards: RewardsCfg = RewardsCfg()
    terminations: TerminationsCfg = TerminationsCfg()

    def __post_init__(self) -> None:
        """Set rates and physics engine."""
        self.decimation = 4
        self.episode_length_s = 5.0
        self.sim.dt = 1 / 120
        self.sim.render_interval = self.decimation
        self.sim.physics = PhysicsCfg()
