"""Environment of ``LedgerLab-Cartpole``.

The task is the well-known cart-pole of Isaac Lab (``Isaac-Cartpole``) on assets that need no network. Actions,
observations and events have names of their own, which are part of the panel's identity. The panel decides what counts
as success.
"""

import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab.managers import ObservationGroupCfg
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.utils import configclass
from isaaclab_newton.sim.schemas import NewtonArticulationCfg
from isaaclab_physx.sim.schemas import PhysxArticulationCfg
from isaaclab_tasks.core.cartpole import cartpole_manager_env_cfg as stock

from ledger_lab.tasks.assets import CARTPOLE_USD
from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.tasks.parts import camera_cfg, ground_cfg, light_cfg

CART, POLE = "slider_to_cart", "cart_to_pole"
ACTIONS, OBSERVATIONS, EVENTS = stock.ActionsCfg(), stock.ObservationsCfg().policy, stock.EventCfg()

CARTPOLE_CFG = ArticulationCfg(
    prim_path="{ENV_REGEX_NS}/Robot",
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
class CartpoleSceneCfg(InteractiveSceneCfg):
    """Ground, robot and light."""

    ground = ground_cfg()
    robot: ArticulationCfg = CARTPOLE_CFG
    light = light_cfg()


@configclass
class ActionsCfg:
    """One action: the force on the cart."""

    cart_force = ACTIONS.joint_effort


@configclass
class ObservationsCfg:
    """Observations: positions and velocities of cart and pole."""

    @configclass
    class PolicyCfg(ObservationGroupCfg):
        """Observations of the policy, in order; shape (num_envs, 4)."""

        joint_pos = OBSERVATIONS.joint_pos_rel
        joint_vel = OBSERVATIONS.joint_vel_rel

    policy: PolicyCfg = PolicyCfg()


@configclass
class EventsCfg:
    """Initial states of an episode."""

    reset_cart = EVENTS.reset_cart_position
    reset_pole = EVENTS.reset_pole_position


@configclass
class CartpoleEnvCfg(stock.CartpoleEnvCfg):
    """The whole environment: 120 Hz physics, 60 Hz control, episodes of 5 s."""

    scene: CartpoleSceneCfg = CartpoleSceneCfg(num_envs=CARTPOLE.num_envs, env_spacing=4.0)
    observations: ObservationsCfg = ObservationsCfg()
    actions: ActionsCfg = ActionsCfg()
    events: EventsCfg = EventsCfg()

    def __post_init__(self) -> None:
        """Set the camera."""
        super().__post_init__()
        self.sim.default_visualizer_cfg = camera_cfg((5.5, 0.0, 3.0), (0.0, 0.0, 2.2))
