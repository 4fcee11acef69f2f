"""Unitree Go2 in simulation.

Bodies are ``base`` and, for each leg of ``FL, FR, RL, RR``, ``_hip, _thigh, _calf, _foot``; joints are ``_hip_joint,
_thigh_joint, _calf_joint``. The feet are bodies of their own, so that contact sensors find them.
"""

from __future__ import annotations

import isaaclab.sim as sim_utils
from isaaclab.actuators import DCMotorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab_newton.sim.schemas import NewtonArticulationCfg
from isaaclab_physx.sim.schemas import PhysxArticulationCfg, PhysxRigidBodyCfg

from ledger_lab.tasks.assets import GO2_USD

MAX_EFFORT_NM = {".*_hip_joint": 23.7, ".*_thigh_joint": 23.7, ".*_calf_joint": 45.43}
"""The calf's motor has a further gear reduction, which makes it stronger and slower."""
MAX_VELOCITY_RAD_S = {".*_hip_joint": 30.1, ".*_thigh_joint": 30.1, ".*_calf_joint": 15.70}


def go2_cfg() -> ArticulationCfg:
    """Return the robot on its feet, at Isaac Lab's default pose and with Isaac Lab's motors.

    Isaac Lab's model, if you can reach it, has the same names: ``spawn.usd_path=<…>/Robots/Unitree/Go2/go2.usd``.
    """
    return ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=sim_utils.UsdFileCfg(
            usd_path=str(GO2_USD),
            activate_contact_sensors=True,
            rigid_props=PhysxRigidBodyCfg(max_depenetration_velocity=1.0),
            articulation_props=[
                PhysxArticulationCfg(
                    enabled_self_collisions=False, solver_position_iteration_count=4, solver_velocity_iteration_count=0
                ),
                NewtonArticulationCfg(self_collision_enabled=False),
            ],
        ),
        init_state=ArticulationCfg.InitialStateCfg(
            pos=(0.0, 0.0, 0.4),
            joint_pos={
                ".*L_hip_joint": 0.1,
                ".*R_hip_joint": -0.1,
                "F[LR]_thigh_joint": 0.8,
                "R[LR]_thigh_joint": 1.0,
                ".*_calf_joint": -1.5,
            },
        ),
        actuators={
            "legs": DCMotorCfg(
                joint_names_expr=[".*_hip_joint", ".*_thigh_joint", ".*_calf_joint"],
                saturation_effort=MAX_EFFORT_NM,
                actuator_effort_limit=MAX_EFFORT_NM,
                actuator_velocity_limit=MAX_VELOCITY_RAD_S,
                stiffness=25.0,
                damping=0.5,
            )
        },
        soft_joint_pos_limit_factor=0.9,
        joint_ordering="physx",
        body_ordering="physx",
    )
