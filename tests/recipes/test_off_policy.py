"""The off-policy recipe is translated completely, and only to libraries that have the algorithm."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.recipes import CARTPOLE_OFF_POLICY, OffPolicyRecipe
from ledger_lab.recipes.libraries import agent_key, algorithm_of, dialect_of, library_with
from ledger_lab.recipes.settings import read_setting

CHANGED: dict[str, object] = {
    "experiment_name": "another",
    "max_iterations": 7,
    "save_interval": 3,
    "horizon": 8,
    "hidden_dims": (8, 4, 2),
    "learning_rate": 0.5,
    "action_bound": 0.5,
    "replay_steps": 9,
    "random_steps": 3,
    "warm_up_steps": 5,
    "batch_size": 11,
    "updates_per_step": 13,
    "activation": "tanh",
    "observation_normalization": False,
    "discount": 0.5,
    "polyak": 0.5,
    "initial_entropy_coef": 0.5,
    "reward_scale": 0.5,
}
DIALECT = dialect_of("skrl", "sac")


def test_there_is_another_value_of_every_field_to_test_with() -> None:
    assert set(CHANGED) == {field.name for field in fields(OffPolicyRecipe)} - {"num_envs"} == set(DIALECT.settings)


@pytest.mark.parametrize("name", CHANGED)
def test_every_field_changes_its_settings(name: str) -> None:
    def written(recipe: OffPolicyRecipe) -> list[Any]:
        setting, config = DIALECT.settings[name], DIALECT.translate(recipe)
        return [read_setting(config, override) for override in (setting.override, *setting.also)]

    assert all(
        before != after
        for before, after in zip(
            written(CARTPOLE_OFF_POLICY),
            written(replace(CARTPOLE_OFF_POLICY, **{name: CHANGED[name]})),  # type: ignore[arg-type]
            strict=True,
        )
    )


@pytest.mark.parametrize(
    ("name", "value"), [("action_bound", 0.0), ("action_bound", float("inf")), ("batch_size", 0), ("polyak", 1.5)]
)
def test_impossible_values_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name} .*: must "):
        replace(CARTPOLE_OFF_POLICY, **{name: value})  # type: ignore[arg-type]


def test_the_key_of_an_agent_tells_its_algorithm() -> None:
    assert algorithm_of("skrl", agent_key("skrl", "sac")) == "sac"
    assert algorithm_of("skrl", agent_key("skrl", "ppo")) == "ppo"
    assert algorithm_of("rsl_rl", "rsl_rl_with_symmetry_cfg_entry_point") == "ppo"
    assert algorithm_of("rsl_rl", None) == "ppo"


def test_an_algorithm_chooses_a_library_that_has_it() -> None:
    assert library_with("sac", "rsl_rl") == "skrl"
    assert library_with("ppo", "rl_games") == "rl_games"


def test_a_library_without_the_algorithm_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"sac: RSL-RL has no SAC: use --rl_library skrl"):
        agent_key("rsl_rl", "sac")
    with pytest.raises(UserError, match=r"--algorithm saq: .*sac"):
        agent_key("skrl", "saq")
