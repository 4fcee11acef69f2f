"""The agents' configurations of the ant, translated from its one recipe."""

from __future__ import annotations

from typing import Any

from ledger_lab.recipes import to_rl_games, to_skrl
from ledger_lab.recipes.ant import ANT
from ledger_lab.runners.rsl_rl_adapter import native_config


def rsl_rl_cfg() -> object:
    """Return the recipe as Isaac Lab's configuration of RSL-RL."""
    return native_config(ANT)


def rl_games_cfg() -> dict[str, Any]:
    """Return the recipe as rl_games' own configuration."""
    return to_rl_games(ANT)


def skrl_cfg() -> dict[str, Any]:
    """Return the recipe as SKRL's own configuration."""
    return to_skrl(ANT)
