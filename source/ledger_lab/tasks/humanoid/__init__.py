"""Walk on two legs, as far along +x as possible."""

from ledger_lab.tasks.humanoid.recipe import HUMANOID
from ledger_lab.tasks.registration import Task, register

register(
    "LedgerLab-Humanoid",
    Task(
        env_cfg=f"{__name__}.env_cfg:HumanoidEnvCfg",
        recipe=HUMANOID,
        panel="humanoid_v1",
        symmetry=f"{__name__}.symmetry:humanoid",
    ),
)
