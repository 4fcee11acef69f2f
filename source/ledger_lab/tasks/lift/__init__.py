"""Pick up a cube and hold it at a goal."""

from ledger_lab.tasks.registration import register

register("LedgerLab-Lift-Cube-Franka", __name__, env_cfg="LiftEnvCfg", panel="lift_cube_franka_v1")
