"""A training's algorithm chooses its library and its agent configuration."""

from __future__ import annotations

from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.training.plan import with_agent
from ledger_lab.training.request import TrainRequest


def chosen(**flags: Any) -> tuple[str, str | None]:
    """Return the library and the agent configuration of a request."""
    library, request = with_agent(TrainRequest(**{"task": "LedgerLab-Cartpole", **flags}))
    return library, request.agent


def test_without_an_algorithm_nothing_changes() -> None:
    assert chosen() == ("rsl_rl", None)
    assert chosen(rl_library="skrl", agent="skrl_sac_cfg_entry_point") == ("skrl", "skrl_sac_cfg_entry_point")


def test_an_algorithm_selects_a_library_and_a_configuration() -> None:
    assert chosen(algorithm="ppo") == ("rsl_rl", None)
    assert chosen(algorithm="sac") == ("skrl", "skrl_sac_cfg_entry_point")
    assert chosen(algorithm="sac", rl_library="rl_games") == ("rl_games", "rl_games_sac_cfg_entry_point")
    assert chosen(algorithm="td3") == ("skrl", "skrl_td3_cfg_entry_point")
    assert chosen(algorithm="sac", agent="skrl_sac_cfg_entry_point") == ("skrl", "skrl_sac_cfg_entry_point")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"algorithm": "ddpg"}, "--algorithm ddpg: known: ppo, sac, td3"),
        ({"algorithm": "sac", "rl_library": "rsl_rl"}, "RSL-RL has no SAC: use --rl_library skrl"),
        ({"algorithm": "td3", "rl_library": "rl_games"}, "rl_games has no TD3: use --rl_library skrl"),
        (
            {"algorithm": "sac", "task": "LedgerLab-Humanoid"},
            "Humanoid has no configuration for it: register one",
        ),
        ({"algorithm": "sac", "agent": "skrl_cfg_entry_point"}, "it is no configuration of --algorithm sac"),
        ({"algorithm": "td3", "agent": "skrl_sac_cfg_entry_point"}, "it is no configuration of --algorithm td3"),
        (
            {"algorithm": "ppo", "rl_library": "skrl", "agent": "skrl_sac_cfg_entry_point"},
            "it is no configuration of --algorithm ppo",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as refused:
        chosen(**flags)
    assert "\n" not in str(refused.value)
