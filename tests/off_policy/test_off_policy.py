"""Off-policy recipes are translated completely, and only to libraries that have the algorithm."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger.libraries import agent_key, dialect_of, dialects, library_with
from ledger_lab.off_policy.recipe import OffPolicyRecipe
from ledger_lab.off_policy.recipes import CARTPOLE_SAC, CARTPOLE_TD3
from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.tasks.recipes import Recipe
from ledger_lab.tasks.recipes.settings import read_setting
from ledger_lab.tasks.registered import agent_entry_points

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
    "reward_scale": 0.5,
    "n_step": 3,
    "critic_layer_norm": True,
    "policy_layer_norm": True,
    "replay_on_host": True,
    "update_every": 4,
}
ONLY: dict[str, dict[str, object]] = {
    "sac": {"initial_entropy_coef": 0.5, "entropy_target": -0.5},
    "td3": {"exploration_noise": (0.3, 0.6), "target_noise": 0.6, "target_noise_clip": 0.7, "policy_delay": 3},
}
RECIPES: dict[str, OffPolicyRecipe] = {recipe.algorithm: recipe for recipe in (CARTPOLE_SAC, CARTPOLE_TD3)}
each_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


@each_recipe
def test_every_field_changes_its_settings(recipe: OffPolicyRecipe) -> None:
    fields_to_change = {**CHANGED, **ONLY[recipe.algorithm]}.items()
    for (name, value), dialect in itertools.product(fields_to_change, dialects(recipe.algorithm)):
        changed = replace(recipe, **{name: value})  # type: ignore[arg-type]
        if name in dialect.only:
            with pytest.raises(UserError, match=f"{dialect.title} trains with {name}=.* only, not .*: .* skrl"):
                dialect.translate(changed)
            continue
        setting = dialect.settings[name]
        before, after = (
            [read_setting(dialect.translate(each), override) for override in (setting.override, *setting.also)]
            for each in (recipe, changed)
        )
        assert all(then != now for then, now in zip(before, after, strict=True))


@each_recipe
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("action_bound", float("inf")),
        ("batch_size", 0),
        ("polyak", 1.5),
        ("n_step", 0),
        ("critic_layer_norm", 1),
    ],
)
def test_impossible_values_are_refused(recipe: OffPolicyRecipe, name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name} .*: must "):
        replace(recipe, **{name: value})  # type: ignore[arg-type]


def test_a_task_registers_each_recipe_for_the_libraries_that_have_its_algorithm() -> None:
    recipes: tuple[Recipe, ...] = (CARTPOLE, CARTPOLE_SAC, CARTPOLE_TD3)
    entry_points = agent_entry_points(*recipes)
    assert set(entry_points) == {
        "rsl_rl_cfg_entry_point",
        "rl_games_cfg_entry_point",
        "rl_games_sac_cfg_entry_point",
        "skrl_cfg_entry_point",
        "skrl_sac_cfg_entry_point",
        "skrl_td3_cfg_entry_point",
    }
    assert entry_points["skrl_td3_cfg_entry_point"]() == dialect_of("skrl", "td3").translate(CARTPOLE_TD3)
    with pytest.raises(ValueError, match="at most one recipe per algorithm"):
        agent_entry_points(CARTPOLE, CARTPOLE)


def test_values_are_scaled_like_rewards_unless_they_are_normalized() -> None:
    for dialect in dialects("sac"):
        assert dialect.value_scale(dialect.translate(replace(CARTPOLE_SAC, reward_scale=7.0))) == 7.0
    for dialect in dialects():
        assert dialect.value_scale(dialect.config(CARTPOLE)) == 1.0
    for library in ("rl_games", "skrl"):
        ppo = dialect_of(library)
        scaled = replace(CARTPOLE, reward_scale=7.0)
        assert ppo.value_scale(ppo.translate(scaled)) == 7.0
        assert ppo.value_scale(ppo.translate(replace(scaled, value_normalization=True))) == 1.0
    skrl = dialect_of("skrl")
    unset = skrl.translate(CARTPOLE)
    unset["agent"]["rewards_shaper_scale"] = None
    assert skrl.value_scale(unset) == 1.0


def test_an_algorithm_chooses_a_library_that_has_it() -> None:
    assert library_with("sac", "rsl_rl") == "skrl"
    assert library_with("sac", "rl_games") == "rl_games"
    assert library_with("td3", "rl_games") == "skrl"
    assert library_with("ppo", "rl_games") == "rl_games"


def test_a_library_without_the_algorithm_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"sac: RSL-RL has no SAC: use --rl_library skrl"):
        agent_key("rsl_rl", "sac")
    with pytest.raises(UserError, match=r"td3: rl_games has no TD3: use --rl_library skrl"):
        agent_key("rl_games", "td3")
    with pytest.raises(UserError, match=r"--algorithm saq: .*sac"):
        agent_key("skrl", "saq")
