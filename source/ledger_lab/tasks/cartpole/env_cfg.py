"""Scene, observations, actions, rewards, terminations and events of ``LedgerLab-Cartpole``.

The task is the well-known cart-pole of Isaac Lab (``Isaac-Cartpole``): the same dynamics, starts, rewards and limits,
on assets that need no network. The panel decides what counts as success.
"""

import math

import isaaclab.envs.mdp as mdp
import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab.envs import ManagerBasedRLEnvCfg
from isaaclab.managers import EventTermCfg, ObservationGroupCfg, ObservationTermCfg, RewardTermCfg, TerminationTermCfg
from isaaclab.managers import SceneEntityCfg as Entity
from isaaclab.physics import PhysxAutoCfg
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.utils import configclass
from isaaclab_newton.physics import KaminoPADMMSolverCfg, NewtonCfg
from isaaclab_newton.sim.schemas import NewtonArticulationCfg
from isaaclab_ov.physics import OvPhysxCfg
from isaaclab_physx.physics import PhysxCfg
from isaaclab_physx.sim.schemas import PhysxArticulationCfg
from isaaclab_tasks.utils import PresetCfg
from isaaclab_visualizers.kit import KitVisualizerCfg

from ledger_lab.tasks.assets import CARTPOLE_USD
from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.tasks.parts import ground_cfg, light_cfg, mjwarp

CART, POLE = "slider_to_cart", "cart_to_pole"

CARTPOLE_CFG = ArticulationCfg(
    spawn=sim_utils.UsdFileCfg(
        usd_path=str(CARTPOLE_USD),
        articulation_props=[
            PhysxArticulationCfg(
                enabled_self_collisions=False, solver_position_iteration_count=4, solver_velocity_iteration_count=0
            ),
            NewtonArticulationCfg(self_collision_enabled=False),
        ],
    ),
    init_state=ArticulationCfg.InitialStateCfg(pos=(0.0, 0.0, 2.0), joint_pos={CART: 0.0, POLE: 0.0}),
    actuators={
        "cart": ImplicitActuatorCfg(joint_names_expr=[CART], joint_effort_limit=400.0, stiffness=0.0, damping=10.0),
        "pole": ImplicitActuatorCfg(joint_names_expr=[POLE], joint_effort_limit=400.0, stiffness=0.0, damping=0.0),
    },
)
"""A cart on a rail of 8 m that carries a pole of 1 m; actuators as in Isaac Lab's own cart-pole."""


@configclass
class CartpolePhysicsCfg(PresetCfg):
    """Physics engines, chosen on the command line with ``physics=NAME``."""

    isaacsim_physx: PhysxCfg = PhysxCfg()
    ovphysx: OvPhysxCfg = OvPhysxCfg()
    physx: PhysxAutoCfg = PhysxAutoCfg(isaacsim_physx=isaacsim_physx, ovphysx=ovphysx)
    newton_mjwarp: NewtonCfg = mjwarp(5, 3, impratio=1)
    newton_kamino: NewtonCfg = NewtonCfg(solver_cfg=KaminoPADMMSolverCfg(sparse_jacobian=True), use_cuda_graph=True)
    default: NewtonCfg = newton_mjwarp


@configclass
class CartpoleSceneCfg(InteractiveSceneCfg):
    """Ground, robot and light."""

    ground = ground_cfg()
    robot: ArticulationCfg = CARTPOLE_CFG.replace(prim_path="{ENV_REGEX_NS}/Robot")
    light = light_cfg()


@configclass
class ActionsCfg:
    """One action: the force on the cart."""

    cart_force = mdp.JointEffortActionCfg(asset_name="robot", joint_names=[CART], scale=100.0)


@configclass
class ObservationsCfg:
    """Observations: positions and velocities of cart and pole."""

    @configclass
    class PolicyCfg(ObservationGroupCfg):
        """Observations of the policy, in order; shape (num_envs, 4)."""

        joint_pos = ObservationTermCfg(func=mdp.joint_pos_rel)
        joint_vel = ObservationTermCfg(func=mdp.joint_vel_rel)

    policy: PolicyCfg = PolicyCfg()


@configclass
class EventsCfg:
    """Initial states of an episode."""

    reset_cart = EventTermCfg(
        func=mdp.reset_joints_by_offset,
        mode="reset",
        params={
            "asset_cfg": Entity("robot", joint_names=[CART]),
            "position_range": (-1.0, 1.0),
            "velocity_range": (-0.5, 0.5),
        },
    )
    reset_pole = EventTermCfg(
        func=mdp.reset_joints_by_offset,
        mode="reset",
        params={
            "asset_cfg": Entity("robot", joint_names=[POLE]),
            "position_range": (-0.25 * math.pi, 0.25 * math.pi),
            "velocity_range": (-0.25 * math.pi, 0.25 * math.pi),
        },
    )


@configclass
class RewardsCfg:
    """Rewards, per second."""

    alive = RewardTermCfg(func=mdp.is_alive, weight=1.0)
    terminating = RewardTermCfg(func=mdp.is_terminated, weight=-2.0)
    pole_pos = RewardTermCfg(
        func=mdp.joint_pos_target_l2,
        weight=-1.0,
        params={"asset_cfg": Entity("robot", joint_names=[POLE]), "target": 0.0},
    )
    cart_vel = RewardTermCfg(
        func=mdp.joint_vel_l1, weight=-0.01, params={"asset_cfg": Entity("robot", joint_names=[CART])}
    )
    pole_vel = RewardTermCfg(
        func=mdp.joint_vel_l1, weight=-0.005, params={"asset_cfg": Entity("robot", joint_names=[POLE])}
    )
    survival = RewardTermCfg(func=mdp.survival_success_rate, weight=0.0)
    """Isaac Lab's own success metric, logged for comparison; its weight is zero."""


@configclass
class TerminationsCfg:
    """Terminations."""

    time_out = TerminationTermCfg(func=mdp.time_out, time_out=True)
    cart_out_of_bounds = TerminationTermCfg(
        func=mdp.joint_pos_out_of_manual_limit,
        params={"asset_cfg": Entity("robot", joint_names=[CART]), "bounds": (-3.0, 3.0)},
    )


@configclass
class CartpoleEnvCfg(ManagerBasedRLEnvCfg):
    """The whole environment: 120 Hz physics, 60 Hz control, episodes of 5 s."""

    scene: CartpoleSceneCfg = CartpoleSceneCfg(num_envs=CARTPOLE.num_envs, env_spacing=4.0)
    observations: ObservationsCfg = ObservationsCfg()
    actions: ActionsCfg = ActionsCfg()
    rewards: RewardsCfg = RewardsCfg()
    terminations: TerminationsCfg = TerminationsCfg()
    events: EventsCfg = EventsCfg()

    def __post_init__(self) -> None:
        """Set the rates, the physics engine and the camera."""
        self.decimation = 2
        self.episode_length_s = 5
        self.sim.dt = 1 / 120
        self.sim.render_interval = self.decimation
        self.sim.physics = CartpolePhysicsCfg()
        self.sim.default_visualizer_cfg = KitVisualizerCfg(
            eye=(5.5, 0.0, 3.0), lookat=(0.0, 0.0, 2.2), origin_type="env", focal_length=20.0
        )
