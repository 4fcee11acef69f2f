"""Walk on four legs, as far along +x as possible."""

from ledger_lab.tasks.ant.recipe import ANT
from ledger_lab.tasks.registration import Task, register

register(
    "LedgerLab-Ant",
    Task(
        env_cfg=f"{__name__}.env_cfg:AntEnvCfg",
        recipe=ANT,
        panel="ant_v1",
        reached_on_gpu=("rsl_rl",),
    ),
)
