"""Two policies on the same episodes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_lab.panels.comparison import compare_paired, points_within


def outcomes(both: int, only_first: int, only_second: int, neither: int) -> tuple[list[bool], list[bool]]:
    """Return the outcomes of two policies."""
    pairs = [(True, True)] * both + [(True, False)] * only_first + [(False, True)] * only_second
    pairs += [(False, False)] * neither
    first, second = zip(*pairs, strict=True)
    return list(first), list(second)


def test_the_p_value_is_that_of_the_exact_mcnemar_test() -> None:
    found = compare_paired(*outcomes(80, 2, 10, 8))
    assert (found.episodes, found.only_first, found.only_second) == (100, 2, 10)
    assert found.difference == pytest.approx(0.08)
    assert found.p_value == pytest.approx(2 * (1 + 12 + 66) / 2**12)


def test_equal_outcomes_give_zero_difference_with_an_interval_around_it() -> None:
    found = compare_paired(*outcomes(50, 0, 0, 14))
    assert (found.p_value, found.difference) == (1.0, 0.0)
    assert found.interval == pytest.approx((-1.96 / 66, 1.96 / 66), abs=1e-5)


@pytest.mark.parametrize(("only_first", "only_second"), [(0.02, 0.0), (0.005, 0.02), (0.1, 0.1), (0.3, 0.1)])
def test_the_interval_covers_the_true_difference_as_often_as_claimed(only_first: float, only_second: float) -> None:
    chances = [only_first, only_second, 1 - only_first - only_second]
    drawn = np.random.default_rng(1).multinomial(256, chances, size=5000)
    covered = 0
    for (lost, won, same), times in zip(*np.unique(drawn, axis=0, return_counts=True), strict=True):
        low, high = compare_paired(*outcomes(0, lost, won, same)).interval
        covered += times * (low <= only_second - only_first <= high)
    assert 0.93 < covered / 5000 < 0.98


def test_the_episodes_of_a_cluster_count_as_one() -> None:
    first, second = outcomes(150, 8, 22, 20)
    once = compare_paired(first, second)
    seeds = list(range(200)) * 4
    together = compare_paired(first * 4, second * 4, clusters=seeds)
    apart = compare_paired(first * 4, second * 4)
    assert (together.p_value, together.interval, together.difference) == (once.p_value, once.interval, once.difference)
    assert (together.only_first, together.only_second) == (32, 88)
    assert apart.p_value < together.p_value
    assert apart.interval[0] > together.interval[0]


def drawn_sums(generator: np.random.Generator, seeds: int) -> tuple[list[bool], list[bool], list[int]]:
    """Return outcomes in four cells of two policies that are equal on average.

    The second policy wins all four cells of few seeds, and loses one cell of four times as many.
    """
    kind = generator.choice(3, size=seeds, p=[0.1, 0.4, 0.5])
    won, lost = np.repeat(kind == 0, 4), np.repeat(kind == 1, 4)
    lost &= np.tile([True, False, False, False], seeds)
    return (~won).tolist(), (~lost).tolist(), np.repeat(np.arange(seeds), 4).tolist()


def test_policies_that_are_equal_on_average_differ_no_more_often_than_claimed() -> None:
    generator = np.random.default_rng(5)
    found = [compare_paired(*drawn_sums(generator, 128)) for _ in range(1000)]
    assert np.mean([each.p_value <= 0.05 for each in found]) < 0.07, "the sign test called all of them different"
    assert np.mean([each.interval[0] <= 0 <= each.interval[1] for each in found]) > 0.93


def test_the_p_value_counts_all_choices_of_signs() -> None:
    sums = [3, -1, 2, 2, 0, 1]
    first = [max(0, -total) > cell for total in sums for cell in range(3)]
    second = [max(0, total) > cell for total in sums for cell in range(3)]
    found = compare_paired(first, second, [seed for seed in range(6) for _ in range(3)])
    signed = [
        sum(sign * total for sign, total in zip(signs, sums, strict=True)) for signs in product((-1, 1), repeat=6)
    ]
    assert found.p_value == pytest.approx(np.mean([abs(total) >= 7 for total in signed]))


def shown_interval(text: str) -> tuple[float, float]:
    """Read an interval in percentage points."""
    low, high = text[text.index("[") + 1 : -1].split(", ")
    return float(low), float(high)


@st.composite
def two_policies(draw: st.DrawFn) -> tuple[list[bool], list[bool], list[int]]:
    """Draw outcomes of two policies in some cells, and the seed of each episode."""
    cells = draw(st.integers(1, 5))
    kinds = draw(st.lists(st.lists(st.integers(-1, 1), min_size=cells, max_size=cells), min_size=1, max_size=12))
    times = draw(st.lists(st.integers(1, 60), min_size=len(kinds), max_size=len(kinds)))
    gains = [gain for kind, count in zip(kinds, times, strict=True) for _ in range(count) for gain in kind]
    return [gain < 0 for gain in gains], [gain > 0 for gain in gains], [n // cells for n in range(len(gains))]


@given(two_policies())
@settings(max_examples=300)
def test_interval_and_p_value_never_contradict_each_other_not_even_as_they_are_shown(
    policies: tuple[list[bool], list[bool], list[int]],
) -> None:
    found = compare_paired(*policies)
    low, high = found.interval
    assert (found.p_value <= 0.05) == (not low <= 0 <= high)
    assert low <= found.difference <= high
    low, high = shown_interval(found.points)
    assert (float(found.p_text) <= 0.05) == (not low <= 0 <= high)


def test_rounding_keeps_what_an_interval_says_of_0() -> None:
    assert points_within(0.03, (0.0002, 0.06)) == "+3.0 points [+0.02, +6.00]"
    assert points_within(-0.03, (-0.06, -0.00004)) == "-3.0 points [-6.000, -0.004]"
    assert points_within(0.03, (-0.0002, 0.06)) == "+3.0 points [-0.0, +6.0]"


def test_a_large_panel_has_a_small_p_value_and_never_0() -> None:
    found = compare_paired(*outcomes(0, 0, 2000, 2000), clusters=[index // 4 for index in range(4000)])
    assert 0 < found.p_value < 1e-25
    assert found.interval[0] > 0.4


@pytest.mark.parametrize(
    ("first", "second", "clusters"), [([], [], None), ([True], [True, False], None), ([True], [False], [1, 2])]
)
def test_unpaired_sequences_are_refused(first: list[bool], second: list[bool], clusters: list[int] | None) -> None:
    with pytest.raises(ValueError, match="cannot pair"):
        compare_paired(first, second, clusters)
