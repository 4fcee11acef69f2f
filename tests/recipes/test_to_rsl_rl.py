"""A recipe means the same to the library as the configuration it was translated from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger_lab.recipes import to_rsl_rl
from ledger_lab.recipes.cartpole import CARTPOLE


def test_a_changed_recipe_changes_the_translation() -> None:
    changed = replace(CARTPOLE, learning_rate=0.5, hidden_dims=(8,), discount=0.5, initial_noise_std=0.1)
    fields = to_rsl_rl(changed)
    assert fields["algorithm"]["learning_rate"] == 0.5
    assert fields["algorithm"]["gamma"] == 0.5
    assert fields["actor"]["hidden_dims"] == fields["critic"]["hidden_dims"] == [8]
    assert fields["actor"]["distribution_cfg"]["init_std"] == 0.1


@pytest.mark.parametrize(
    "wrong", [{"horizon": 0}, {"learning_rate": -1.0}, {"discount": 1.5}, {"hidden_dims": ()}, {"minibatches": 0}]
)
def test_a_recipe_that_no_library_could_train_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        replace(CARTPOLE, **wrong)  # type: ignore[arg-type]
