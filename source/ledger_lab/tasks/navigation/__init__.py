"""A four-legged robot that navigates among pillars to a pose; a frozen policy moves its legs."""

from ledger_lab.tasks.registration import register

register(
    "LedgerLab-Navigation-Flat-AnymalC",
    __name__,
    env_cfg="NavigationEnvCfg",
    panel="navigation_flat_anymal_c_v1",
    symmetric="rsl_rl_cfg_with_symmetry",
)
