"""Values that are drawn, and values that change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_lab.studies.search.space import Parameter, Value

FLOAT = Parameter(name="learning_rate", type="float", low=1e-5, high=1e-1, log=True)
LINEAR = Parameter(name="clip", type="float", low=0.05, high=0.5)
WHOLE = Parameter(name="epochs", type="int", low=1, high=8)
LOG_WHOLE = Parameter(name="epochs", type="int", low=1, high=100, log=True)
CHOICE = Parameter(name="minibatches", type="choice", choices=(2, 4, 8))
SWITCH = Parameter(name="value_clip", type="choice", choices=(False, True))
ALL = (FLOAT, LINEAR, WHOLE, LOG_WHOLE, CHOICE, SWITCH)


@given(st.sampled_from(ALL), st.floats(0, 1, exclude_max=True), st.sampled_from([0.5, 0.8, 1.25, 3.0]))
def test_drawn_and_changed_values_stay_within_the_space(parameter: Parameter, share: float, factor: float) -> None:
    value = parameter.at(share)
    for found in (value, parameter.changed(value, factor)):
        if parameter.choices:
            assert found in parameter.choices
        else:
            assert isinstance(found, int if parameter.type == "int" else float)
            assert parameter.low <= found <= parameter.high


def test_equal_shares_are_equally_probable() -> None:
    shares = [place / 8000 for place in range(8000)]
    for parameter in (WHOLE, CHOICE, SWITCH):
        drawn = [parameter.at(share) for share in shares]
        counts = {value: drawn.count(value) for value in drawn}
        assert max(counts.values()) - min(counts.values()) <= 2
    assert FLOAT.at(0.5) == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("parameter", "value", "factor", "changed"),
    [
        (FLOAT, 1e-3, 1.25, 1.25e-3),
        (FLOAT, 1e-5, 0.8, 1e-5),
        (WHOLE, 2, 1.25, 3),
        (WHOLE, 2, 0.8, 1),
        (WHOLE, 1, 0.8, 1),
        (WHOLE, 4, 1.25, 5),
        (CHOICE, 4, 1.25, 8),
        (CHOICE, 2, 0.8, 2),
        (SWITCH, False, 1.25, True),
    ],
)
def test_a_value_changes_to_one_near_it(parameter: Parameter, value: Value, factor: float, changed: Value) -> None:
    assert parameter.changed(value, factor) == changed
