"""Environment of ``LedgerLab-Ant``.

The task is the well-known ant of Isaac Lab (``Isaac-Ant``) on assets that need no network. The panel decides what
counts as success.
"""

from isaaclab.utils import configclass
from isaaclab_tasks.core.locomotion.ant import ant_manager_env_cfg as stock

from ledger_lab.tasks.ant.recipe import ANT
from ledger_lab.tasks.assets.robots import ant_cfg
from ledger_lab.tasks.locomotion import LocomotionSceneCfg
from ledger_lab.tasks.parts import camera_cfg


@configclass
class AntEnvCfg(stock.AntEnvCfg):
    """The whole environment: 120 Hz physics, 60 Hz control, episodes of 16 s; the policy observes 60 numbers."""

    scene: LocomotionSceneCfg = LocomotionSceneCfg(num_envs=ANT.num_envs, env_spacing=5.0, robot=ant_cfg())

    def __post_init__(self) -> None:
        """Set the order of the feet, which engines order differently, and the camera."""
        super().__post_init__()
        self.episode_length_s = 16  # a whole number in the panel's identity
        self.observations.policy.feet_body_forces.params["sensor_cfg"].preserve_order = True
        self.sim.default_visualizer_cfg = camera_cfg((2.8, -1.6, 1.6), (0.0, 0.0, -0.1), follows="robot")
