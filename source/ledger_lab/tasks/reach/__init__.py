"""Move the hand of an arm to a pose and hold it there."""

from ledger_lab.tasks.registration import register

register("LedgerLab-Reach-Franka", __name__, env_cfg="ReachEnvCfg", panel="reach_franka_v1")
