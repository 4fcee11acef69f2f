"""Pick up a cube and hold it at a goal."""

from ledger_lab.tasks.lift.recipe import LIFT
from ledger_lab.tasks.registration import Task, register

register(
    "LedgerLab-Lift-Cube-Franka",
    Task(
        env_cfg=f"{__name__}.env_cfg:LiftEnvCfg",
        recipe=LIFT,
        panel="lift_cube_franka_v1",
    ),
)
