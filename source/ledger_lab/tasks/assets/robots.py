"""Robots of Isaac Lab with LedgerLab's own USD files, which need no network.

Where nothing else is said here, a robot is Isaac Lab's. Its bodies and joints have the same names as those of Isaac
Lab's model. If you can reach that model, use it with ``env.scene.robot.spawn.usd_path=<…>``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from isaaclab.actuators import DCMotorCfg, ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab_assets.robots.ant import ANT_CFG
from isaaclab_assets.robots.anymal import ANYMAL_C_CFG
from isaaclab_assets.robots.franka import FRANKA_PANDA_CFG
from isaaclab_assets.robots.humanoid import HUMANOID_CFG
from isaaclab_assets.robots.unitree import UNITREE_GO2_CFG
from isaaclab_newton.sim.schemas import MujocoRigidBodyCfg
from isaaclab_physx.sim.schemas import PhysxRigidBodyCfg

from ledger_lab.tasks.assets import ANT_USD, ANYMAL_C_USD, GO2_USD, HUMANOID_USD, PANDA_USD


def ant_cfg() -> ArticulationCfg:
    """Return the ant: four legs of two joints each, with the feet at 45 degrees."""
    cfg = _own(ANT_CFG, ANT_USD, PhysxRigidBodyCfg(max_depenetration_velocity=10.0, enable_gyroscopic_forces=True))
    cfg.spawn.activate_contact_sensors = False
    cfg.init_state.joint_pos = {
        ".*_leg": 0.0,
        "(front_left|right_back)_foot": 0.785398,
        "(front_right|left_back)_foot": -0.785398,
    }
    return cfg


def anymal_c_cfg() -> ArticulationCfg:
    """Return ANYbotics ANYmal-C on its feet.

    The motors are ANYdrives with their published limits. Isaac Lab drives its own ANYmal-C through a neural network
    that it downloads; here they are DC motors whose gains carry the robot's weight.

    Bodies are ``base`` and, for each leg of ``LF, LH, RF, RH``, ``_HIP, _THIGH, _SHANK, _FOOT``; joints are ``_HAA,
    _HFE, _KFE``. The feet are bodies of their own, so that contact sensors find them.
    """
    motors = DCMotorCfg(
        joint_names_expr=[".*HAA", ".*HFE", ".*KFE"],
        saturation_effort=120.0,
        actuator_effort_limit=80.0,
        actuator_velocity_limit=7.5,
        stiffness=150.0,
        damping=4.0,
    )
    rigid = PhysxRigidBodyCfg(max_depenetration_velocity=1.0)
    return _own(ANYMAL_C_CFG, ANYMAL_C_USD, rigid, actuators={"legs": motors})


def go2_cfg() -> ArticulationCfg:
    """Return Unitree Go2 on its feet.

    Bodies are ``base`` and, for each leg of ``FL, FR, RL, RR``, ``_hip, _thigh, _calf, _foot``; joints are
    ``_hip_joint, _thigh_joint, _calf_joint``. The feet are bodies of their own, so that contact sensors find them.
    """
    cfg = _own(UNITREE_GO2_CFG, GO2_USD, PhysxRigidBodyCfg(max_depenetration_velocity=1.0))
    cfg.init_state.joint_pos = {name.replace(",", ""): angle for name, angle in cfg.init_state.joint_pos.items()}
    motors = cfg.actuators.pop("base_legs")
    motors.friction = None
    cfg.actuators["legs"] = motors
    return cfg


def franka_cfg() -> ArticulationCfg:
    """Return Franka Emika Panda on its base, with its gripper.

    Gains are stiff and gravity is off, so that joints follow their targets closely.

    Bodies are ``panda_link0`` to ``panda_link7``, ``panda_hand``, ``panda_leftfinger`` and ``panda_rightfinger``;
    joints are ``panda_joint1`` to ``panda_joint7``, ``panda_finger_joint1`` and ``panda_finger_joint2``. The point
    between the fingertips lies 0.1034 m from the hand along its z.
    """
    rigid = [
        PhysxRigidBodyCfg(disable_gravity=True, max_depenetration_velocity=5.0),
        MujocoRigidBodyCfg(gravcomp=1.0),
    ]
    arm = ImplicitActuatorCfg(
        joint_names_expr=["panda_joint[1-7]"],
        joint_effort_limit={"panda_joint[1-4]": 87.0, "panda_joint[5-7]": 12.0},
        stiffness=400.0,
        damping=80.0,
        armature=1e-3,
    )
    hand = ImplicitActuatorCfg(
        joint_names_expr=["panda_finger_joint.*"], joint_effort_limit=200.0, stiffness=2e3, damping=1e2
    )
    cfg = _own(FRANKA_PANDA_CFG, PANDA_USD, rigid, actuators={"panda_arm": arm, "panda_hand": hand})
    cfg.spawn.variants = None
    return cfg


def humanoid_cfg() -> ArticulationCfg:
    """Return MuJoCo's humanoid upright with straight legs.

    Bodies are ``torso`` (with the head), ``lower_waist``, ``pelvis`` and, for each side of ``left, right``, ``_thigh,
    _shin, _foot, _upper_arm, _lower_arm`` (with the hand). A joint is named after its child body, and its axes are
    numbered: ``lower_waist:0`` turns about z and ``:1`` about y, ``_thigh:0`` about x, ``:1`` about y (it swings the
    leg) and ``:2`` about z, ``_foot:0`` about y. The second axis of Isaac Lab's upper arms is ``:2``.

    Joints of several axes are one joint each, as in Isaac Lab's model, and the engines read their positions
    differently: Newton turns about one axis after the other, PhysX about one rotation vector. They agree if only one
    axis is turned.
    """
    springs = ImplicitActuatorCfg(
        joint_names_expr=[".*"],
        stiffness={
            ".*_waist.*": 20.0,
            ".*_upper_arm.*": 10.0,
            "pelvis": 10.0,
            ".*_lower_arm": 2.0,
            ".*_thigh:[02]": 10.0,
            ".*_thigh:1": 20.0,
            ".*_shin": 5.0,
            ".*_foot.*": 2.0,
        },
        damping={
            ".*_waist.*": 5.0,
            ".*_upper_arm.*": 5.0,
            "pelvis": 5.0,
            ".*_lower_arm": 1.0,
            ".*_thigh.*": 5.0,
            ".*_shin": 0.1,
            ".*_foot.*": 1.0,
        },
        joint_velocity_limit=100.0,
        joint_effort_limit=150.0,
        armature=0.01,
    )
    rigid = PhysxRigidBodyCfg(max_depenetration_velocity=10.0, enable_gyroscopic_forces=True)
    return _own(HUMANOID_CFG, HUMANOID_USD, rigid, actuators={"body": springs})


def _own(stock: ArticulationCfg, usd: Path, rigid_props: Any, **changes: Any) -> ArticulationCfg:  # noqa: ANN401
    """Return a robot of Isaac Lab with a file of LedgerLab.

    Args:
        stock: The robot.
        usd: The file.
        rigid_props: Settings of its bodies.
        changes: Further settings.
    """
    spawn = stock.spawn.replace(
        usd_path=str(usd), activate_contact_sensors=True, rigid_props=rigid_props, copy_from_source=True
    )
    return stock.replace(
        prim_path="{ENV_REGEX_NS}/Robot", spawn=spawn, joint_ordering="physx", body_ordering="physx", **changes
    )
