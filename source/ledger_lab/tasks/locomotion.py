"""What the ant and the humanoid share: the scene."""

from dataclasses import MISSING

from isaaclab.assets import ArticulationCfg
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.sensors import JointWrenchSensorCfg
from isaaclab.utils import configclass

from ledger_lab.tasks.parts import ground_cfg, light_cfg


@configclass
class LocomotionSceneCfg(InteractiveSceneCfg):
    """Ground, robot, the feet's sensors and light."""

    ground = ground_cfg()
    robot: ArticulationCfg = MISSING
    joint_wrench = JointWrenchSensorCfg(prim_path="{ENV_REGEX_NS}/Robot")
    light = light_cfg()
