"""A four-legged robot that navigates among pillars to a pose; a frozen policy moves its legs."""

from ledger_lab.tasks.navigation.recipe import NAVIGATION
from ledger_lab.tasks.registration import Task, register

register(
    "LedgerLab-Navigation-Flat-AnymalC",
    Task(
        env_cfg=f"{__name__}.env_cfg:NavigationEnvCfg",
        recipe=NAVIGATION,
        panel="navigation_flat_anymal_c_v1",
        symmetry=f"{__name__}.symmetry:navigation",
    ),
)
