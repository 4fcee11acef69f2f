"""Sums with coefficients of at least 0, fitted to measurements with relative errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_ndtr

from ledger_lab.studies.scaling.positive_fit import Floats, fit_positive

SIZES = np.repeat([1.0, 2.0, 4.0, 8.0], 3)
TERMS = np.stack([np.ones_like(SIZES), SIZES], axis=1)


def noisy(coefficients: tuple[float, float], spread: float, seed: int = 0) -> Floats:
    noise: Floats = np.exp(spread * np.random.default_rng(seed).standard_normal(len(SIZES)))
    return TERMS @ np.array(coefficients) * noise


def log_likelihood(parameters: Floats, measured: Floats, limits: Floats) -> float:
    """Return the log-likelihood of the sum, by its definition."""
    fitted, spread = np.log(TERMS @ np.exp(parameters[:2])), np.exp(parameters[2])
    z = (np.log(np.minimum(measured, limits)) - fitted) / spread
    return float(np.where(measured < limits, -0.5 * z**2 - np.log(spread), log_ndtr(-z)).sum())


@pytest.mark.parametrize("limit", [np.inf, 6.0, 3.6])
def test_the_fit_has_the_largest_likelihood(limit: float) -> None:
    measured, limits = noisy((2.0, 0.5), 0.3), np.full(len(SIZES), limit)
    fit = fit_positive(TERMS, measured, limits, draws=10, generator=np.random.default_rng(0))
    freedom = int((measured < limits).sum()) - 2
    spread = fit.spread * np.sqrt(freedom / (freedom + 2))  # the estimate of the largest likelihood
    start = np.log([*fit.coefficients, spread])
    best = minimize(lambda at: -log_likelihood(at, measured, limits), start, method="Nelder-Mead")
    assert log_likelihood(start, measured, limits) == pytest.approx(-best.fun, abs=1e-5)


def test_a_coefficient_that_would_be_negative_is_zero() -> None:
    measured = 5.0 - 0.2 * SIZES
    fit = fit_positive(TERMS, measured, None, draws=10, generator=np.random.default_rng(0))
    assert fit.coefficients[0] == pytest.approx(np.exp(np.log(measured).mean()), rel=1e-4)
    assert fit.coefficients[1] < 1e-5 * fit.coefficients[0]


def test_draws_vary_as_the_fits_of_other_measurements() -> None:
    drawn = fit_positive(TERMS, noisy((2.0, 0.5), 0.1), None, draws=2000, generator=np.random.default_rng(0)).draws
    others = np.array(
        [
            fit_positive(
                TERMS, noisy((2.0, 0.5), 0.1, seed), None, draws=1, generator=np.random.default_rng(0)
            ).coefficients
            for seed in range(1, 200)
        ]
    )
    # Ten degrees of freedom: a spread estimated from twelve runs may be off by half.
    assert drawn.std(axis=0) == pytest.approx(others.std(axis=0), rel=0.5)


@pytest.mark.filterwarnings("error")
def test_runs_of_extreme_spread_are_fitted_without_warnings() -> None:
    for measured in ([1.0, 1e6], [1e-300, 1e300]):
        fit = fit_positive(
            np.ones((2, 1)), np.array(measured), None, draws=4000, generator=np.random.default_rng(0)
        )  # fmt: skip
        assert fit.coefficients == pytest.approx(np.exp(np.log(measured).mean()))
        assert np.isfinite(fit.draws).all() and (fit.draws > 0).all()


def test_too_few_measurements_are_refused() -> None:
    limits = np.full(len(SIZES), 2.9)
    with pytest.raises(ValueError, match="2 measurements for 2 coefficients"):
        fit_positive(TERMS, np.r_[2.0, 2.0, [3.0] * 10], limits, draws=10, generator=np.random.default_rng(0))
