"""The values of a trial come back from the recipe file that its runs record."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.search_races import declared
from ledger_lab.errors import UserError
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.space import Parameter, Space, Value, Values
from ledger_lab.studies.search.trial_recipe import recipe_text, recorded_values
from ledger_lab.tasks.recipes.recipe_file import check_recipe

PARAMETERS = (
    Parameter(name="schedule", choices=("adaptive", "fixed")),
    Parameter(name="rl_library", choices=("rsl_rl", "skrl"), when={"schedule": ("adaptive",)}),
    Parameter(name="kl_target", low=1e-3, high=1e-1, log=True, when={"schedule": ("adaptive",)}),
    Parameter(name="learning_rate", low=1, high=3),
    Parameter(name="num_envs", choices=(64, 128)),
    Parameter(name="hidden_dims", choices=((64, 64), (32,))),
    Parameter(name="value_clip", choices=(True, False)),
    Parameter(name="env.episode_length_s", low=1.0, high=9.0),
    Parameter(name="env.decimation", low=1, high=9),
    Parameter(name="env.name", choices=("1", "x=y", 2.5, True)),
)
SEARCH: SearchDeclaration = replace(
    declared(1.0),
    space=Space(parameters=PARAMETERS),
    stock={"kl_target": 0.02, "discount": 0.9, "env.other": "a", "env.decimation": 4},
)


@st.composite
def trial_values(draw: st.DrawFn) -> Values:
    values: dict[str, Value] = {}
    for each in PARAMETERS:
        if not each.is_active(values):
            continue
        if each.choices:
            values[each.name] = draw(st.sampled_from(each.choices))
        elif each.is_whole:
            values[each.name] = draw(st.integers(int(each.low or 0), int(each.high or 0)))
        else:
            values[each.name] = draw(st.floats(each.low or 0.0, each.high or 0.0))
    return values


def recorded(values: Values) -> dict[str, object]:
    """Return what a run records of the recipe file of a trial, after a journey through a journal."""
    text = recipe_text(SEARCH.recipe(values), "a trial")
    data: dict[str, object] = json.loads(json.dumps(check_recipe(Path("r.toml"), tomllib.loads(text)).to_data()))
    return data


@given(trial_values())
def test_values_come_back(values: Values) -> None:
    found = recorded_values(SEARCH, recorded(values), str(values.get("rl_library", "rsl_rl")), is_stock=False)
    assert found == values
    assert {name: type(value) for name, value in found.items()} == {name: type(each) for name, each in values.items()}
    assert SEARCH.space.check(found) is None


def test_the_stock_recipe_has_no_values() -> None:
    assert recorded_values(SEARCH, recorded({}), "rsl_rl", is_stock=True) == {}
    plain = replace(SEARCH, stock={})
    assert recorded_values(plain, None, "skrl", is_stock=True) == {}


def test_a_run_with_another_recipe_than_its_trial_is_refused() -> None:
    other = replace(SEARCH, stock={**SEARCH.stock, "discount": 0.95})
    with pytest.raises(UserError, match=r"sets discount to 0\.9, and that of its trial sets discount to 0\.95"):
        recorded_values(other, recorded({}), "rsl_rl", is_stock=True)
    more = check_recipe(Path("r.toml"), {"version": 1, "recipe": {"clip": 0.3}}).to_data()
    with pytest.raises(UserError, match=r"its recipe sets clip to 0\.3, and that of its trial does not set clip"):
        recorded_values(replace(SEARCH, stock={}), more, "rsl_rl", is_stock=True)
    with pytest.raises(UserError, match=r"does not set env\.other, and that of its trial sets env\.other to 'a'"):
        recorded_values(SEARCH, {**recorded({}), "overrides": ["env.decimation=4"]}, "rsl_rl", is_stock=True)
