"""The cart-pole as a task of the direct workflow: Isaac Lab's own environment, on assets that need no network."""

from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.tasks.registration import Task, register

register(
    "LedgerLab-Cartpole-Direct",
    Task(
        entry_point="isaaclab_tasks.core.cartpole.cartpole_direct_env:CartpoleEnv",
        env_cfg=f"{__name__}.env_cfg:CartpoleDirectEnvCfg",
        recipe=CARTPOLE,
        panel="cartpole_direct_v1",
    ),
)
