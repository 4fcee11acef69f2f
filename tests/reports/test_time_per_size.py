"""Fits of a time as a function of size."""

from __future__ import annotations

import random

import pytest

from ledger_lab.reports.time_per_size import fit_time_per_size


def test_known_coefficients_are_found() -> None:
    fit = fit_time_per_size([(n, 0.004 + 2e-6 * n) for n in (256, 512, 4096)])
    assert fit is not None
    assert (fit.fixed, fit.per_item) == (pytest.approx(0.004), pytest.approx(2e-6))
    assert (fit.sizes, fit.runs, fit.residual) == ((256, 512, 4096), 3, pytest.approx(0.0, abs=1e-9))
    assert fit.growth(256, 512) == pytest.approx(0.000512 / 0.004512)
    assert fit.saving(256, 512) == pytest.approx(1 - (0.005024 / 2) / 0.004512)


def test_noise_is_averaged_and_reported() -> None:
    draw = random.Random(0)
    measured = [(n, (0.004 + 2e-6 * n) * draw.uniform(0.95, 1.05)) for n in (256, 512, 1024, 4096) for _ in range(50)]
    fit = fit_time_per_size(measured)
    assert fit is not None
    assert (fit.fixed, fit.per_item) == (pytest.approx(0.004, rel=0.03), pytest.approx(2e-6, rel=0.03))
    assert 0.02 < fit.residual < 0.08


@pytest.mark.parametrize(
    "measured", [[], [(256, 1.0)], [(256, 1.0), (256, 1.1)], [(0, 1.0), (2, 1.0)], [(1, 0.0), (2, 1.0)]]
)
def test_one_size_or_impossible_figures_give_no_fit(measured: list[tuple[int, float]]) -> None:
    assert fit_time_per_size(measured) is None


def test_no_coefficient_is_negative() -> None:
    falling, steep = fit_time_per_size([(100, 1.1), (200, 1.0)]), fit_time_per_size([(100, 1.0), (200, 3.0)])
    assert falling is not None and steep is not None
    assert (falling.per_item, falling.fixed) == (0.0, pytest.approx(1.05))
    assert (steep.fixed, steep.saving(100, 200)) == (0.0, pytest.approx(0.0))
    assert steep.residual > 0.1, "a curve that is no line shows"
