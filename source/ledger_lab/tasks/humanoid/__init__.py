"""Walk on two legs, as far along +x as possible."""

from ledger_lab.tasks.registration import register

register(
    "LedgerLab-Humanoid",
    __name__,
    env_cfg="HumanoidEnvCfg",
    panel="humanoid_v1",
    symmetric="rsl_rl_cfg_with_symmetry",
)
