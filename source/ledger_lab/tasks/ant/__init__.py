"""Walk on four legs, as far along +x as possible."""

from ledger_lab.tasks.registration import register

register("LedgerLab-Ant", __name__, env_cfg="AntEnvCfg", panel="ant_v1")
