"""Each library's side of the translation is complete, and refuses what it can't say."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger.libraries import dialects
from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.tasks.recipes import Dialect, PpoRecipe
from tools.equivalence import TASK_FIELDS

every_dialect = pytest.mark.parametrize("dialect", dialects(), ids=lambda dialect: dialect.library)
FIELDS = {field.name for field in fields(PpoRecipe)} - TASK_FIELDS

CHANGED: dict[str, object] = {
    "experiment_name": "another",
    "max_iterations": 7,
    "save_interval": 3,
    "horizon": 8,
    "epochs": 2,
    "minibatches": 16,
    "hidden_dims": (8, 4, 2),
    "learning_rate": 0.5,
    "entropy_coef": 0.25,
    "activation": "tanh",
    "observation_normalization": True,
    "value_normalization": True,
    "schedule": "fixed",
    "kl_target": 0.5,
    "clip": 0.5,
    "value_clip": False,
    "value_coef": 0.5,
    "max_grad_norm": 0.5,
    "discount": 0.5,
    "gae_lambda": 0.5,
    "timeout_bootstrap": False,
    "reward_scale": 0.5,
    "initial_noise_std": 0.5,
    "mixed_precision": True,
    "torch_compile": True,
}


def look_up(config: dict[str, Any], override: str) -> object:
    """Return what an override of the command line would replace."""
    agent, *path = override.split(".")
    assert agent == "agent"
    node: Any = config
    for name in path:
        node = node[int(name)] if isinstance(node, list) else node[name]
    return node


def test_there_is_another_value_of_every_field_to_test_with() -> None:
    assert set(CHANGED) == FIELDS
    assert not [name for name, value in CHANGED.items() if getattr(CARTPOLE, name) == value]


@every_dialect
def test_every_field_is_translated_or_refused_by_name(dialect: Dialect) -> None:
    assert {*dialect.settings, *dialect.only} == FIELDS
    translate = dialect.translate
    plain = translate(CARTPOLE)
    for name, value in CHANGED.items():
        changed = replace(CARTPOLE, **{name: value})  # type: ignore[arg-type]
        if name in dialect.only:
            assert getattr(CARTPOLE, name) == dialect.only[name].value
            with pytest.raises(UserError, match=f"{dialect.title} trains with {name}=.* only, not {value!r}: "):
                translate(changed)
            continue
        override = dialect.settings[name].override
        assert look_up(translate(changed), override) != look_up(plain, override), name


@every_dialect
def test_the_schedule_that_advice_names_is_the_librarys_own(dialect: Dialect) -> None:
    adaptive = dialect.translate(replace(CARTPOLE, schedule="adaptive"))
    assert look_up(adaptive, dialect.settings["schedule"].override) == dialect.adaptive
