"""Environment of ``LedgerLab-Humanoid``.

The task is the well-known humanoid of Isaac Lab (``Isaac-Humanoid``) on assets that need no network; relative to
staying alive, progress has twice the reward. The panel decides what counts as success.
"""

from isaaclab.utils import configclass
from isaaclab_newton.physics import NewtonCfg
from isaaclab_tasks.core.locomotion.humanoid import humanoid_manager_env_cfg as stock

from ledger_lab.tasks.assets.robots import humanoid_cfg
from ledger_lab.tasks.humanoid.recipe import HUMANOID
from ledger_lab.tasks.locomotion import LocomotionSceneCfg
from ledger_lab.tasks.parts import EnginesCfg, camera_cfg, mjwarp

FEET = stock.FEET_BODY_NAMES
GEARS = {
    ".*_waist.*": 67.5,
    ".*_upper_arm.*": 67.5,
    "pelvis": 67.5,
    ".*_lower_arm": 45.0,
    ".*_thigh:[02]": 45.0,
    ".*_thigh:1": 135.0,
    ".*_shin": 90.0,
    ".*_foot.*": 22.5,
}
"""Torque of a unit action by joint [N·m], as in Isaac Lab. The keys are part of the panel's identity."""


@configclass
class HumanoidPhysicsCfg(EnginesCfg):
    """Physics engines, with room for a humanoid's contacts."""

    # measured with humanoids that fall or lie: 69 constraint rows, 18 contacts
    newton_mjwarp: NewtonCfg = mjwarp(80, 24, impratio=1, num_substeps=2)
    default: NewtonCfg = newton_mjwarp


@configclass
class HumanoidEnvCfg(stock.HumanoidEnvCfg):
    """The whole environment: 120 Hz physics, 60 Hz control, episodes of 16 s; the policy observes 87 numbers."""

    scene: LocomotionSceneCfg = LocomotionSceneCfg(num_envs=HUMANOID.num_envs, env_spacing=5.0, robot=humanoid_cfg())

    def __post_init__(self) -> None:
        """Set the motors, the order of the feet, which engines order differently, the reward and the camera."""
        super().__post_init__()
        self.episode_length_s = 16  # a whole number in the panel's identity
        self.actions.joint_effort.scale = GEARS
        self.actions.joint_effort.clip = {joint: (-gear, gear) for joint, gear in GEARS.items()}
        self.observations.policy.feet_body_forces.params["sensor_cfg"].preserve_order = True
        self.rewards.progress.weight = 2.0
        self.sim.physics = HumanoidPhysicsCfg()
        self.sim.default_visualizer_cfg = camera_cfg((2.2, -2.9, 0.5), (0.0, 0.0, -0.3), follows="robot")
