"""Physics engines and environment of ``LedgerLab-Humanoid``.

The task is the well-known humanoid of Isaac Lab (``Isaac-Humanoid``): the same starts, observations, actions, rewards
and limits, on assets that need no network; relative to staying alive, progress has twice the reward. The panel decides
what counts as success.
"""

from isaaclab.utils import configclass
from isaaclab_newton.physics import NewtonCfg
from isaaclab_tasks.core.locomotion import mdp

from ledger_lab.tasks.assets.humanoid import humanoid_cfg
from ledger_lab.tasks.humanoid.recipe import HUMANOID
from ledger_lab.tasks.locomotion import LocomotionEnvCfg
from ledger_lab.tasks.parts import EnginesCfg, mjwarp

FEET = ["left_foot", "right_foot"]
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
"""Torque of a unit action by joint [N·m], as in Isaac Lab."""


@configclass
class HumanoidPhysicsCfg(EnginesCfg):
    """Physics engines, with room for a humanoid's contacts."""

    # measured with humanoids that fall or lie: 69 constraint rows, 18 contacts
    newton_mjwarp: NewtonCfg = mjwarp(80, 24, impratio=1, num_substeps=2)
    default: NewtonCfg = newton_mjwarp


@configclass
class HumanoidEnvCfg(LocomotionEnvCfg):
    """The whole environment; the policy observes 87 numbers."""

    def __post_init__(self) -> None:
        """Set the robot, its scales and weights, its physics engine and the camera."""
        super().__post_init__()
        self.scene.num_envs = HUMANOID.num_envs
        self.scene.robot = humanoid_cfg()
        self.actions.joint_effort = mdp.JointEffortActionCfg(
            asset_name="robot",
            joint_names=[".*"],
            scale=GEARS,
            clip={joint: (-gear, gear) for joint, gear in GEARS.items()},
        )
        self.know_joints(FEET, GEARS)
        policy, rewards = self.observations.policy, self.rewards
        policy.base_ang_vel.scale, policy.joint_vel_rel.scale, policy.feet_body_forces.scale = 0.25, 0.1, 0.01
        rewards.progress.weight, rewards.alive.weight, rewards.terminating.weight = 2.0, 2.0, -1.0
        rewards.action_l2.weight, rewards.energy.weight = -0.01, -0.005
        rewards.joint_pos_limits.weight, rewards.joint_pos_limits.params["threshold"] = -0.25, 0.98
        self.terminations.torso_height.params["minimum_height"] = 0.8
        self.sim.physics = HumanoidPhysicsCfg()
        self.sim.default_visualizer_cfg.eye = (2.2, -2.9, 0.5)
        self.sim.default_visualizer_cfg.lookat = (0.0, 0.0, -0.3)
