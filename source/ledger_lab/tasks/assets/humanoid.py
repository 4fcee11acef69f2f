"""MuJoCo's humanoid in simulation.

Bodies are ``torso`` (with the head), ``lower_waist``, ``pelvis`` and, for each side of ``left, right``, ``_thigh,
_shin, _foot, _upper_arm, _lower_arm`` (with the hand). A joint is named after its child body, and its axes
are numbered: ``lower_waist:0`` turns about z and ``:1`` about y, ``_thigh:0`` about x, ``:1`` about y (it swings the
leg) and ``:2`` about z, ``_foot:0`` about y.

Joints of several axes are one joint each, as in Isaac Lab's model, and the engines read their positions differently:
Newton turns about one axis after the other, PhysX about one rotation vector. They agree if only one axis is turned.
"""

from __future__ import annotations

import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab_newton.sim.schemas import NewtonArticulationCfg
from isaaclab_physx.sim.schemas import PhysxArticulationCfg, PhysxRigidBodyCfg

from ledger_lab.tasks.assets import HUMANOID_USD

STIFFNESS = {
    ".*_waist.*": 20.0,
    ".*_upper_arm.*": 10.0,
    "pelvis": 10.0,
    ".*_lower_arm": 2.0,
    ".*_thigh:[02]": 10.0,
    ".*_thigh:1": 20.0,
    ".*_shin": 5.0,
    ".*_foot.*": 2.0,
}
"""[N·m/rad]"""
DAMPING = {
    ".*_waist.*": 5.0,
    ".*_upper_arm.*": 5.0,
    "pelvis": 5.0,
    ".*_lower_arm": 1.0,
    ".*_thigh.*": 5.0,
    ".*_shin": 0.1,
    ".*_foot.*": 1.0,
}
"""[N·m·s/rad]"""


def humanoid_cfg() -> ArticulationCfg:
    """Return the robot upright with straight legs, with Isaac Lab's springs and dampers.

    Isaac Lab's model, if you can reach it, has the same names but for the upper arms' second axis, which is ``:2``
    there: ``spawn.usd_path=<…>/Robots/IsaacSim/Humanoid/humanoid_instanceable.usd``.
    """
    return ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=sim_utils.UsdFileCfg(
            usd_path=str(HUMANOID_USD),
            activate_contact_sensors=True,
            rigid_props=PhysxRigidBodyCfg(max_depenetration_velocity=10.0, enable_gyroscopic_forces=True),
            articulation_props=[
                PhysxArticulationCfg(
                    enabled_self_collisions=True,
                    solver_position_iteration_count=4,
                    solver_velocity_iteration_count=0,
                    sleep_threshold=0.005,
                    stabilization_threshold=0.001,
                ),
                NewtonArticulationCfg(self_collision_enabled=True),
            ],
        ),
        init_state=ArticulationCfg.InitialStateCfg(pos=(0.0, 0.0, 1.34), joint_pos={".*": 0.0}),
        actuators={
            "body": ImplicitActuatorCfg(
                joint_names_expr=[".*"],
                stiffness=STIFFNESS,
                damping=DAMPING,
                joint_velocity_limit=100.0,
                joint_effort_limit=150.0,
                armature=0.01,
            )
        },
        joint_ordering="physx",
        body_ordering="physx",
    )
