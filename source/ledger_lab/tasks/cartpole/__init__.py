"""Balance a pole on a cart that starts anywhere on its rail."""

from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.tasks.registration import Task, register

register(
    "LedgerLab-Cartpole",
    Task(
        env_cfg=f"{__name__}.env_cfg:CartpoleEnvCfg",
        recipe=CARTPOLE,
        panel="cartpole_v1",
        reached_on_gpu=("rsl_rl",),
    ),
)
