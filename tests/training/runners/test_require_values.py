"""Settings of a recipe are valid for the library, or refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger.libraries import LIBRARIES, dialect_of, dialects
from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.tasks.recipes import Dialect, PpoRecipe
from ledger_lab.training.runners.adapter import load_adapter

every_library = pytest.mark.parametrize("library", LIBRARIES)

RATES = ("learning_rate", "clip", "discount", "gae_lambda")

NETWORKS = {
    "rsl_rl": ("agent.actor", "agent.critic"),
    "rl_games": ("agent.params.network.mlp",),
    "skrl": ("agent.models.policy.network.0", "agent.models.value.network.0"),
}


def native(library: str, recipe: PpoRecipe = CARTPOLE) -> Any:
    return dialect_of(library).config(recipe)


def require(library: str, *changes: tuple[str, object], recipe: PpoRecipe = CARTPOLE) -> None:
    """Check the configuration of a recipe with some of its settings changed."""
    from ledger_lab.training.runners.configs import require_values

    cfg = native(library, recipe)
    for override, value in changes:
        *groups, name = override.split(".")[1:]
        node = cfg
        for group in groups:
            node = (
                node[int(group)]
                if isinstance(node, list)
                else node[group]
                if isinstance(node, dict)
                else vars(node)[group]
            )
        if isinstance(node, dict):
            node[name] = value
        else:
            setattr(node, name, value)
    require_values(cfg, load_adapter(library))


def refused(library: str, override: str, value: object) -> str:
    with pytest.raises(UserError) as raised:
        require(library, (override, value))
    said = str(raised.value)
    assert said.startswith(f"{override} {value!r}: ") and "\n" not in said
    return said


@every_library
def test_every_recipe_has_valid_values(library: str) -> None:
    require(library)
    for activation in ("elu", "relu", "tanh", "selu"):
        require(library, recipe=replace(CARTPOLE, activation=activation, schedule="fixed"))


@every_library
@pytest.mark.parametrize("field", RATES)
def test_rates_must_keep_the_rules_of_the_recipe(library: str, field: str) -> None:
    for value in (-0.2, float("nan"), "much", None, True):
        assert "must " in refused(library, dialect_of(library).settings[field].override, value)


@pytest.mark.parametrize("dialect", dialects(), ids=lambda dialect: dialect.library)
def test_every_number_of_a_recipe_has_a_rule(dialect: Dialect) -> None:
    numbers = {name for name, value in vars(CARTPOLE).items() if isinstance(value, float | int | tuple)}
    switches = {name for name, value in vars(CARTPOLE).items() if isinstance(value, bool)}
    ruled = {field for field, _ in dialect.rules.values()}
    assert (numbers - switches - {"num_envs"}) & {*dialect.settings} <= ruled


@every_library
def test_activations_are_those_of_the_library(library: str) -> None:
    for network in NETWORKS[library]:
        override = f"{network}.{'activations' if library == 'skrl' else 'activation'}"
        for value in ("foo", None, ["foo"], 3):
            assert "elu" in refused(library, override, value)
        for name in {"rsl_rl": ["lrelu", "Mish"], "rl_games": ["swish", "None"], "skrl": ["Leaky_ReLU", ""]}[library]:
            require(library, (override, name))
    if library == "skrl":
        require(library, (override, ["relu", None]), (override, []))


@pytest.mark.parametrize(
    ("library", "override", "taken", "wrong"),
    [
        ("rsl_rl", "agent.algorithm.schedule", ["adaptive", "fixed"], ["adaptiv", "linear", None]),
        ("rsl_rl", "agent.algorithm.desired_kl", [None, 0.02], [0.0, -1]),
        ("rsl_rl", "agent.torch_compile_mode", [None, "max-autotune-no-cudagraphs"], ["defalt", "reduce-overhead"]),
        ("rsl_rl", "agent.critic.hidden_dims", [[32, -1]], [[], [32, 0], [3.5], None]),
        (
            "rl_games",
            "agent.params.config.lr_schedule",
            ["adaptive", "linear", "constant", "fixed", "None", None],
            ["adaptiv", "Linear", 3],
        ),
        ("rl_games", "agent.params.network.mlp.units", [[], [8]], [[0], None, 8]),
        ("rl_games", "agent.params.config.save_frequency", [0, None], []),
        ("skrl", "agent.agent.learning_rate_scheduler", ["KLAdaptiveLR", None], ["RunningStandardScaler", ["x"]]),
        ("skrl", "agent.agent.value_preprocessor", ["RunningStandardScaler", None], ["KLAdaptiveLR"]),
        ("skrl", "agent.agent.learning_rate", [[1e-3, 1e-4]], [[1e-3, -1.0], "1"]),
        ("skrl", "agent.agent.grad_norm_clip", [0.0], [None, float("inf")]),
        ("skrl", "agent.agent.rewards_shaper_scale", [None, 0.1], [-1.0]),
        ("skrl", "agent.agent.lambda", [0.9], [1.5]),
        ("skrl", "agent.models.policy.network.0.layers", [[], [{"linear": 8}, 4], [32]], [[0], [None], 32]),
    ],
)
def test_each_library_has_its_own_special_values(
    library: str, override: str, taken: list[object], wrong: list[object]
) -> None:
    for value in taken:
        require(library, (override, value))
    for value in wrong:
        refused(library, override, value)


@pytest.mark.parametrize(
    ("library", "override"),
    [
        ("rsl_rl", "env.rewards.pole_pos.weight=null"),
        ("rl_games", "agent.params.config.bounds_loss_coef=null"),
        ("skrl", "agent.agent.kl_threshold=None"),
        ("rl_games", "agent.params.config.torch_compile=null"),
    ],
)
def test_none_is_refused_in_place_of_a_number(library: str, override: str) -> None:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs

    registered_tasks()
    with pytest.raises(UserError, match=rf"^override '{override}': .* is of type .*, and '\w+' is not$"):
        resolve_configs("LedgerLab-Cartpole", library, [override])
