"""Exact intervals of shares hold for any number of runs, also of several kinds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from ledger_lab.ledger.costs import exact_interval


def test_the_interval_is_that_of_scipy() -> None:
    for count in range(4):
        expected = binomtest(count, 3).proportion_ci()
        assert exact_interval(count, 3) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("each", [1, 2, 5])
def test_it_holds_for_the_mean_share_of_two_tasks_of_unequal_difficulty(each: int) -> None:
    intervals = [exact_interval(count, 2 * each) for count in range(2 * each + 1)]
    for easy, hard in ((0.9, 0.1), (0.5, 0.5), (0.99, 0.7)):
        chances = np.convolve(binom.pmf(range(each + 1), each, easy), binom.pmf(range(each + 1), each, hard))
        held = [low <= (easy + hard) / 2 <= high for low, high in intervals]
        assert chances[held].sum() >= 0.95
