"""The prospects of a panel: how likely a good policy is to be proven at once."""

from __future__ import annotations

import pytest
from scipy.stats import binom

from ledger_lab.panels.checks import Prospects


@pytest.mark.parametrize(("episodes", "chance"), [(64, 0.16), (128, 0.38), (256, 0.79), (512, 0.98)])
def test_the_chance_is_that_of_a_policy_that_fails_half_as_often_as_it_may(episodes: int, chance: float) -> None:
    prospects = Prospects.of(0.9, episodes)
    assert prospects.good == pytest.approx(0.95)
    assert prospects.chance == pytest.approx(binom.sf(prospects.needed - 1, episodes, 0.95), rel=1e-9)
    assert prospects.chance == pytest.approx(chance, abs=0.005)
    for figure in (f"{prospects.needed} of {episodes}", "90 %", "95 %", f"{100 * chance:.0f} %"):
        assert figure in str(prospects)


def test_a_target_of_every_episode_is_never_proven() -> None:
    prospects = Prospects.of(1.0, 256)
    assert prospects.chance == 0
    assert prospects.warning is not None and "a lower target" in prospects.warning


def test_a_smaller_error_budget_asks_for_more() -> None:
    whole, rest = Prospects.of(0.9, 256), Prospects.of(0.9, 256, 0.005)
    assert rest.needed > whole.needed and rest.chance < whole.chance
    assert whole.warning is None and rest.warning is not None
