"""A four-legged robot that finds its way between pillars to a pose, on the legs of a policy that can already walk."""

from ledger_lab.tasks.registration import register

register(
    "LedgerLab-Navigation-Flat-AnymalC",
    __name__,
    env_cfg="NavigationEnvCfg",
    panel="navigation_flat_anymal_c_v1",
    symmetric=True,
)
