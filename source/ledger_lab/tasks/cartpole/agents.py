"""The agents' configurations of the cart-pole, translated from its one recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger_lab.recipes.cartpole import CARTPOLE
from ledger_lab.runners.rsl_rl_adapter import native_config

if TYPE_CHECKING:
    from isaaclab_rl.rsl_rl import RslRlOnPolicyRunnerCfg

def rsl_rl_cfg() -> RslRlOnPolicyRunnerCfg:
    """Return the recipe as a configuration of RSL-RL."""
    return native_config(CARTPOLE)
