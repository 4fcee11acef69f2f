"""Fits sums with coefficients of at least 0 to measurements with relative errors, some of them only known to be larger.

Each scaling law of this package is such a sum, of one to three terms. For example, Amdahl's law says that the time per
unit of work is ``serial + parallel / processes``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

type Floats = NDArray[np.float64]

_ROUNDS = 100
"""Most attempts to draw measurements that can be fitted."""
_AT_ONCE = 1_000_000
"""Largest number of simulated measurements that are fitted at once, so that many runs do not take much memory."""
_STEPS = 500
"""Most steps of the fit. It ends earlier when nothing changes any more; many censored measurements need the most."""
_STILL = 1e-7
"""Largest relative change of a fitted value, and of the variance, at which the fit has converged."""
_LONGEST_STEP = 1.0
"""Longest step of a coefficient's logarithm."""
_DAMPING = 1e-12
"""Added to the squares of the slopes, so that a term that no longer matters has a step, too."""
_LARGEST_LOG = 500.0
"""Largest logarithm of a simulated measurement, so that extreme spreads neither overflow nor become 0."""
_LEAST_VARIANCE = 1e-20
"""Added to the variance, which is 0 where the law fits exactly."""


@dataclass(frozen=True)
class PositiveFit:
    """``y = terms @ coefficients``, with an error that is normal in the logarithm of ``y``."""

    coefficients: Floats
    """At least 0; shape (terms,)."""
    spread: float
    """Standard deviation of the logarithm of a measurement, corrected for the number of coefficients."""
    draws: Floats
    """Coefficients that fit what might have been measured instead; shape (draws, terms)."""


def fit_positive(
    terms: Floats, measured: Floats, limits: Floats | None, *, draws: int, generator: Generator
) -> PositiveFit:
    """Fit coefficients by maximum likelihood, and draw what other runs of the same sizes might have given.

    A draw simulates all measurements anew, and fits them. Its spread is that of the fit, with the uncertainty that a
    spread from few runs has. Resampling the runs themselves would not do: three runs per size have only ten different
    resamples. The intervals of the draws take the errors to be log-normal, and equally large at all sizes.

    Args:
        terms: Terms of the sum, at least 0; shape (runs, terms). Its columns must be independent.
        measured: What was measured; shape (runs,). For a censored run, the value that it exceeds.
        limits: The value above which a run would be censored; shape (runs,). ``None`` if no run can be. A run is
            censored if its measurement is at least its limit.
        draws: Number of draws.
        generator: Random numbers.

    Raises:
        ValueError: If fewer measurements than one more than there are coefficients are not censored.
    """
    logs = np.log(measured)
    tops = np.full(len(measured), np.inf) if limits is None else np.log(limits)
    freedom = int((logs < tops).sum()) - terms.shape[1]
    if freedom < 1:
        raise ValueError(f"{freedom + terms.shape[1]} measurements for {terms.shape[1]} coefficients")
    coefficients, variance = _fitted(terms, logs[None], tops)
    spread = float(np.sqrt(variance[0] * (freedom + terms.shape[1]) / freedom))
    simulated = np.empty((0, len(logs)))
    for _ in range(_ROUNDS):
        spreads = spread * np.sqrt(freedom / generator.chisquare(freedom, size=(draws, 1)))
        more = np.log(terms @ coefficients[0]) + spreads * generator.standard_normal((draws, len(logs)))
        more = np.clip(more, -_LARGEST_LOG, _LARGEST_LOG)
        # Draws that could not be fitted are left out, as such measurements would be refused.
        simulated = np.concatenate([simulated, more[(more < tops).sum(axis=1) > terms.shape[1]]])
        if len(simulated) >= draws:
            break
    else:
        raise ValueError("nearly all measurements are at their limits")
    parts = np.array_split(simulated[:draws], -(-draws * len(logs) // _AT_ONCE))
    drawn = np.concatenate([_fitted(terms, part, tops)[0] for part in parts])
    return PositiveFit(coefficients[0], spread, drawn)


def _fitted(terms: Floats, logs: Floats, tops: Floats) -> tuple[Floats, Floats]:
    """Fit many sets of measurements, by Gauss-Newton steps of the coefficients' logarithms.

    A coefficient whose best value is 0 falls until its term no longer matters. Censored measurements are replaced by
    what they are expected to be, given the fit so far (the EM algorithm).

    Args:
        terms: Shape (runs, terms).
        logs: Logarithms of the measurements; shape (sets, runs).
        tops: Logarithms of the limits; shape (runs,).

    Returns:
        Coefficients, shape (sets, terms), and variances of the logarithm by maximum likelihood, shape (sets,).
    """
    from scipy.special import log_ndtr  # takes longer to load than most reports

    coefficients = np.exp(np.minimum(logs, tops).mean(axis=1))[:, None] / (terms.mean(axis=0) * terms.shape[1])
    variances = np.full(len(logs), 0.1)
    moving = np.arange(len(logs))
    for _ in range(_STEPS):
        censored = logs[moving] >= tops
        values = np.where(censored, tops, logs[moving])
        parts = coefficients[moving, None, :] * terms
        fitted = parts.sum(axis=2)
        residuals, hidden = values - np.log(fitted), np.zeros(values.shape)
        if censored.any():
            spreads = np.sqrt(np.broadcast_to(variances[moving, None], values.shape)[censored])
            z = residuals[censored] / spreads
            hazard = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-z))
            residuals[censored] = spreads * hazard
            hidden[censored] = spreads**2 * (1 + z * hazard - hazard**2)
        changed_variances = (residuals**2 + hidden).mean(axis=1) + _LEAST_VARIANCE
        slopes = parts / fitted[:, :, None]  # of the fitted logarithm, by that of the coefficient
        squares = np.einsum("sri,srj->sij", slopes, slopes) + _DAMPING * np.eye(terms.shape[1])
        steps = np.linalg.solve(squares, np.einsum("sri,sr->si", slopes, residuals)[:, :, None])[:, :, 0]
        coefficients[moving] *= np.exp(np.clip(steps, -_LONGEST_STEP, _LONGEST_STEP))
        moved = np.abs(np.log((coefficients[moving] @ terms.T) / fitted)).max(axis=1)
        still = (moved < _STILL) & (np.abs(np.log(changed_variances / variances[moving])) < _STILL)
        variances[moving] = changed_variances
        moving = moving[~still]
        if not len(moving):
            break
    return coefficients, variances
