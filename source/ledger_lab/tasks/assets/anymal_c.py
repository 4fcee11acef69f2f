"""ANYbotics ANYmal-C in simulation.

Bodies are ``base`` and, for each leg of ``LF, LH, RF, RH``, ``_HIP, _THIGH, _SHANK, _FOOT``; joints are ``_HAA, _HFE,
_KFE``. The feet are bodies of their own, so that contact sensors find them.
"""

from __future__ import annotations

import isaaclab.sim as sim_utils
from isaaclab.actuators import DCMotorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab_newton.sim.schemas import NewtonArticulationCfg
from isaaclab_physx.sim.schemas import PhysxArticulationCfg, PhysxRigidBodyCfg

from ledger_lab.tasks.assets import ANYMAL_C_USD


def anymal_c_cfg() -> ArticulationCfg:
    """Return the robot on its feet, at Isaac Lab's default pose.

    The motors are ANYdrives with their published limits. Isaac Lab drives its own ANYmal-C through a neural network
    that it downloads; here they are DC motors whose gains carry the robot's weight. Isaac Lab's model, if you can reach
    it, has the same names: ``spawn.usd_path=<…>/Robots/ANYbotics/ANYmal-C/anymal_c.usd``.
    """
    return ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=sim_utils.UsdFileCfg(
            usd_path=str(ANYMAL_C_USD),
            activate_contact_sensors=True,
            rigid_props=PhysxRigidBodyCfg(max_depenetration_velocity=1.0),
            articulation_props=[
                PhysxArticulationCfg(
                    enabled_self_collisions=True, solver_position_iteration_count=4, solver_velocity_iteration_count=0
                ),
                NewtonArticulationCfg(self_collision_enabled=True),
            ],
        ),
        init_state=ArticulationCfg.InitialStateCfg(
            pos=(0.0, 0.0, 0.6),
            joint_pos={".*HAA": 0.0, ".*F_HFE": 0.4, ".*H_HFE": -0.4, ".*F_KFE": -0.8, ".*H_KFE": 0.8},
        ),
        actuators={
            "legs": DCMotorCfg(
                joint_names_expr=[".*HAA", ".*HFE", ".*KFE"],
                saturation_effort=120.0,
                actuator_effort_limit=80.0,
                actuator_velocity_limit=7.5,
                stiffness=150.0,
                damping=4.0,
            )
        },
        soft_joint_pos_limit_factor=0.95,
        joint_ordering="physx",
        body_ordering="physx",
    )
