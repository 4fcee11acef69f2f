"""Environment of ``LedgerLab-Cartpole-Direct``: ``Isaac-Cartpole-Direct`` on assets that need no network."""

from isaaclab.assets import ArticulationCfg
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.utils import configclass
from isaaclab_tasks.core.cartpole import cartpole_direct_env_cfg as stock

from ledger_lab.tasks.cartpole.env_cfg import CARTPOLE_CFG
from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.tasks.parts import camera_cfg, ground_cfg, light_cfg


@configclass
class CartpoleSceneCfg(InteractiveSceneCfg):
    """Ground, robot and light."""

    ground = ground_cfg()
    cartpole: ArticulationCfg = CARTPOLE_CFG
    light = light_cfg()


@configclass
class CartpoleDirectEnvCfg(stock.CartpoleEnvCfg):
    """The whole environment: 120 Hz physics, 60 Hz control, episodes of 5 s."""

    scene: CartpoleSceneCfg = CartpoleSceneCfg(num_envs=CARTPOLE.num_envs, env_spacing=4.0)

    def __post_init__(self) -> None:
        """Set the camera."""
        super().__post_init__()
        self.sim.default_visualizer_cfg = camera_cfg((5.5, 0.0, 3.0), (0.0, 0.0, 2.2))
