"""Franka Emika Panda with its gripper in simulation.

Bodies are ``panda_link0`` to ``panda_link7``, ``panda_hand``, ``panda_leftfinger`` and ``panda_rightfinger``; joints
are ``panda_joint1`` to ``panda_joint7``, ``panda_finger_joint1`` and ``panda_finger_joint2``. The point between the
fingertips lies 0.1034 m from the hand along its z.
"""

from __future__ import annotations

import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab_newton.sim.schemas import MujocoRigidBodyCfg, NewtonArticulationCfg
from isaaclab_physx.sim.schemas import PhysxArticulationCfg, PhysxRigidBodyCfg

from ledger_lab.tasks.assets import PANDA_USD


def franka_cfg(*, high_pd: bool = False) -> ArticulationCfg:
    """Return the arm on its base, at Isaac Lab's default pose and with Isaac Lab's gains.

    Isaac Lab's model, if you can reach it, has the same names:
    ``spawn.usd_path=<…>/Robots/FrankaEmika/Legacy/panda_instanceable.usd``.

    Args:
        high_pd: Whether gains are stiffer and gravity is off, so that joints follow their targets closely.
    """
    stiffness, damping = (400.0, 80.0) if high_pd else (80.0, 4.0)
    return ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=sim_utils.UsdFileCfg(
            usd_path=str(PANDA_USD),
            activate_contact_sensors=True,
            rigid_props=[
                PhysxRigidBodyCfg(disable_gravity=high_pd, max_depenetration_velocity=5.0),
                MujocoRigidBodyCfg(gravcomp=1.0 if high_pd else 0.0),
            ],
            articulation_props=[
                PhysxArticulationCfg(
                    enabled_self_collisions=False, solver_position_iteration_count=8, solver_velocity_iteration_count=0
                ),
                NewtonArticulationCfg(self_collision_enabled=False),
            ],
        ),
        init_state=ArticulationCfg.InitialStateCfg(
            joint_pos={
                "panda_joint1": 0.0,
                "panda_joint2": -0.569,
                "panda_joint3": 0.0,
                "panda_joint4": -2.810,
                "panda_joint5": 0.0,
                "panda_joint6": 3.037,
                "panda_joint7": 0.741,
                "panda_finger_joint.*": 0.04,
            },
        ),
        actuators={
            "panda_arm": ImplicitActuatorCfg(
                joint_names_expr=["panda_joint[1-7]"],
                joint_effort_limit={"panda_joint[1-4]": 87.0, "panda_joint[5-7]": 12.0},
                stiffness=stiffness,
                damping=damping,
                armature=1e-3,
            ),
            "panda_hand": ImplicitActuatorCfg(
                joint_names_expr=["panda_finger_joint.*"], joint_effort_limit=200.0, stiffness=2e3, damping=1e2
            ),
        },
        joint_ordering="physx",
        body_ordering="physx",
    )
