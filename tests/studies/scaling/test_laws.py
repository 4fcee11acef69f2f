"""How rates grow with the number of processes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ledger_lab.studies.scaling import Law, RateFit

PUBLISHED = (243_988.0, 422_000.0, 608_000.0, 896_156.0)
"""Environment steps per second of Isaac-Cartpole-Direct on 1, 2, 4 and 8 GPUs."""


def runs(
    law: Law, sizes: list[int], contention: float, spread: float, pairs: float = 0.0
) -> tuple[list[int], list[float]]:
    """Simulate three runs of each size; each pair of processes may cost further time, which no law contains."""
    generator, each = np.random.default_rng(1), [size for size in sizes for _ in range(3)]
    rates = []
    for size in each:
        if law is Law.GUSTAFSON:
            rate = size - contention * (size - 1)
        else:
            rate = size / (1 + contention * (size - 1) + pairs * size * (size - 1))
        rates.append(500.0 * rate * math.exp(spread * generator.standard_normal()))
    return each, rates


@pytest.mark.parametrize("law", [*Law])
def test_contention_is_found(law: Law) -> None:
    fit = RateFit(law, *runs(law, [1, 2, 4, 8, 16, 32], 0.1, 1e-6))
    assert fit.contention.value == pytest.approx(0.1, abs=1e-4)
    assert fit.single_rate is not None and fit.single_rate.value == pytest.approx(500.0, rel=1e-4)


def test_the_interval_holds_the_truth_and_narrows_with_the_spread() -> None:
    widths = []
    for spread in (0.1, 0.01):
        low, high = RateFit(Law.AMDAHL, *runs(Law.AMDAHL, [1, 2, 4, 8], 0.1, spread)).contention.interval or (1, 0)
        assert low < 0.1 < high
        widths.append(high - low)
    assert widths[1] < 0.2 * widths[0]


def test_published_rates_without_repetitions_have_no_interval() -> None:
    fit = RateFit(Law.AMDAHL, [1, 2, 4, 8], PUBLISHED)
    assert fit.contention.value == pytest.approx(0.175, abs=0.001)
    assert fit.contention.interval is None and fit.misfit_p_value is None
    assert fit.at(8).interval is None
    assert fit.largest_deviation == pytest.approx(0.049, abs=0.001)


def test_nothing_is_predicted_beyond_the_measured_sizes() -> None:
    fit = RateFit(Law.AMDAHL, *runs(Law.AMDAHL, [2, 4, 8], 0.1, 0.01))
    low, high = fit.at(8).interval or (0, 0)
    assert low < 500 * 8 / 1.7 < high
    assert fit.single_rate is None
    for far in (0, 1, 9, 16):
        with pytest.raises(ValueError, match="outside of the measured sizes, 2 to 8"):
            fit.at(far)


def test_a_law_that_does_not_fit_predicts_nothing() -> None:
    wrong = RateFit(Law.AMDAHL, *runs(Law.AMDAHL, [1, 2, 4, 8, 16, 32], 0.02, 0.01, pairs=0.01))
    assert not wrong.fits
    with pytest.raises(ValueError, match="Amdahl.s law does not fit the runs"):
        wrong.at(8)


@pytest.mark.parametrize(
    ("law", "sizes", "rates", "said"),
    [
        (Law.AMDAHL, [1, 2, 2], [1.0, 2.0, 2.0], "Amdahl.s law needs 3 sizes, and there are 2"),
        (Law.GUSTAFSON, [1, 2], [1.0] * 2, "Gustafson.s law needs 3 sizes"),
        (Law.AMDAHL, [1, 2, 4], [1.0, 2.0], "each run needs"),
        (Law.AMDAHL, [0, 2, 4], [1.0, 2.0, 3.0], "each run needs"),
        (Law.AMDAHL, [1, 2, 4], [1.0, 2.0, math.nan], "each run needs"),
        (Law.AMDAHL, [], [], "each run needs"),
    ],
)
def test_too_few_sizes_are_refused(law: Law, sizes: list[int], rates: list[float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RateFit(law, sizes, rates)
