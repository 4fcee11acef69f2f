"""A recipe means the same to each library as the library's own configurations do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.time_to_target import STOCK_ANT
from ledger_lab.errors import UserError
from ledger_lab.tasks.cartpole.recipe import CARTPOLE, STOCK_CARTPOLE
from ledger_lab.tasks.recipes import PpoRecipe
from ledger_lab.training.runners.rl_games.dialect import DIALECT as RL_GAMES
from ledger_lab.training.runners.skrl.dialect import DIALECT as SKRL

STOCK = pytest.mark.parametrize(("family", "recipe"), [("Ant", STOCK_ANT), ("Cartpole", STOCK_CARTPOLE)])


@pytest.mark.parametrize(
    "wrong",
    [
        {"horizon": 0},
        {"learning_rate": -1.0},
        {"learning_rate": float("nan")},
        {"discount": 1.5},
        {"hidden_dims": ()},
        {"hidden_dims": (32, 0)},
        {"minibatches": 0},
        {"clip": 0.0},  # no clipping at all to one library, no learning to the others
        {"max_grad_norm": 0.0},  # the same
        {"kl_target": -0.01},
        {"schedule": "linear"},
        {"activation": "gelu"},
    ],
)
def test_a_recipe_that_no_library_could_train_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        replace(CARTPOLE, **wrong)  # type: ignore[arg-type]


@STOCK
def test_a_stock_recipe_is_what_isaac_lab_trains_its_own_task_with(family: str, recipe: PpoRecipe) -> None:
    from isaaclab.utils import to_dict
    from isaaclab_tasks.utils.parse_cfg import load_cfg_from_registry

    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.rsl_rl.dialect import native_config

    registered_tasks()
    stock = to_dict(load_cfg_from_registry(f"Isaac-{family}", "rsl_rl_cfg_entry_point"))
    ours = to_dict(native_config(recipe))
    for name in ("experiment_name",):
        stock.pop(name), ours.pop(name)
    assert ours == stock
    env_cfg = load_cfg_from_registry(f"Isaac-{family}", "env_cfg_entry_point")
    assert env_cfg.scene.num_envs == recipe.num_envs


@STOCK
def test_the_benchmark_turns_our_recipe_into_the_stock_recipe(family: str, recipe: PpoRecipe) -> None:
    from benchmarks.time_to_target import stock_overrides
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.rsl_rl.dialect import native_config

    registered_tasks()
    _, agent = resolve_configs(f"LedgerLab-{family}", "rsl_rl", stock_overrides(f"LedgerLab-{family}"))
    assert agent.to_dict() == native_config(recipe).to_dict()


def test_minibatches_are_environment_steps_so_that_their_number_does_not_hang_on_the_environments() -> None:
    config = RL_GAMES.translate(replace(CARTPOLE, horizon=24, minibatches=8))["params"]["config"]
    assert config["minibatch_size_per_env"] == 3
    assert "minibatch_size" not in config
    with pytest.raises(UserError, match="a horizon that is a multiple of minibatches, and 24 is not a multiple of 5"):
        RL_GAMES.translate(replace(CARTPOLE, horizon=24, minibatches=5))


def test_a_deviation_that_skrl_would_cut_down_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"SKRL limits the standard deviation of actions .* initial_noise_std, which is 8"
    ):
        SKRL.translate(replace(CARTPOLE, initial_noise_std=8.0))
    assert SKRL.translate(replace(CARTPOLE, initial_noise_std=7.0))
