"""Balance a pole on a cart that starts anywhere on its rail."""

from ledger_lab.tasks.registration import register

register("LedgerLab-Cartpole", __name__, env_cfg="CartpoleEnvCfg", panel="cartpole_v1")
