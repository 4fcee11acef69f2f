"""What a study asks of a training is read as ``train.py`` reads it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.studies.checks import request_of
from ledger_lab.training.request import TrainRequest
from ledger_lab.training.requested import requested_dialect


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, ("rsl_rl", "ppo")),
        ({"algorithm": "td3"}, ("skrl", "td3")),
        ({"algorithm": "sac", "rl_library": "rl_games"}, ("rl_games", "sac")),
        ({"rl_library": "rl_games", "agent": "rl_games_sac_cfg_entry_point"}, ("rl_games", "sac")),
    ],
)
def test_flags_choose_library_and_algorithm(flags: dict[str, Any], expected: tuple[str, str]) -> None:
    dialect = requested_dialect(TrainRequest(**flags))
    assert (dialect.library, dialect.algorithm) == expected


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"algorithm": "sac", "rl_library": "rsl_rl"}, "RSL-RL has no SAC: use --rl_library skrl"),
        ({"algorithm": "saq"}, "--algorithm saq: "),
        ({"rl_library": "skr"}, "unknown library 'skr'"),
    ],
)
def test_what_no_library_has_is_refused(flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        requested_dialect(TrainRequest(**flags))


def test_a_recipe_file_changes_the_recipe_of_the_algorithm_of_an_arm(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text("version = 1\n[recipe]\nreplay_steps = 9\n")
    arm: Any = SimpleNamespace(arguments=("--algorithm", "sac", "--recipe", str(tmp_path / "r.toml")))
    assert request_of(arm, []).overrides == ("agent.memory.memory_size=9",)
    assert "agent.replay_steps=9" in request_of(arm, ["--rl_library", "rl_games"]).overrides
    arm.arguments = arm.arguments[2:]
    with pytest.raises(UserError, match="'replay_steps' is not a field of ppo"):
        request_of(arm, [])
