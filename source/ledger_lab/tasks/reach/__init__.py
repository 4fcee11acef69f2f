"""Move the hand of an arm to a pose and hold it there."""

from ledger_lab.tasks.reach.recipe import REACH
from ledger_lab.tasks.registration import Task, register

register(
    "LedgerLab-Reach-Franka",
    Task(
        env_cfg=f"{__name__}.env_cfg:ReachEnvCfg",
        recipe=REACH,
        panel="reach_franka_v1",
    ),
)
