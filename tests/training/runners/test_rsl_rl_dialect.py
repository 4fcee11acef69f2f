"""A recipe means the same to the library as the configuration it was translated from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.time_to_target import STOCK_ANT
from ledger_lab.tasks.cartpole.recipe import CARTPOLE, STOCK_CARTPOLE
from ledger_lab.tasks.recipes import PpoRecipe
from ledger_lab.training.runners.rsl_rl.dialect import DIALECT

STOCK = pytest.mark.parametrize(("family", "recipe"), [("Ant", STOCK_ANT), ("Cartpole", STOCK_CARTPOLE)])


def test_a_changed_recipe_changes_the_translation() -> None:
    changed = replace(CARTPOLE, learning_rate=0.5, hidden_dims=(8,), discount=0.5, initial_noise_std=0.1)
    config = DIALECT.translate(changed)
    assert config["algorithm"]["learning_rate"] == 0.5
    assert config["algorithm"]["gamma"] == 0.5
    assert config["actor"]["hidden_dims"] == config["critic"]["hidden_dims"] == [8]
    assert config["actor"]["distribution_cfg"]["init_std"] == 0.1


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
