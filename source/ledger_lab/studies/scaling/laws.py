"""Laws of scaling: Amdahl's and Gustafson's of the rate, and one of the samples to the target.

With ``X(N)`` the environment steps per second of N processes, ``λ = X(1)`` and contention ``σ``:

- Amdahl (1967): ``X(N) = λ N / (1 + σ (N - 1))``, for a problem whose size stays the same (strong scaling).
- Gustafson (1988): ``X(N) = λ (N - σ (N - 1))``, for a problem that grows with N (weak scaling).

And one of how the samples to the target grow with the batch. With ``B`` samples per iteration,
``E(B) = E_min (1 + B / B_crit)``: small batches need ``E_min`` samples, and at the critical batch twice as many. Time
shrinks with the batch until there, and costs grow beyond (McCandlish et al. 2018, *An Empirical Model of Large-Batch
Training*, equation 2.11, written for samples in place of steps).

In each law, a time, a rate, or a number of samples is a sum with coefficients of at least 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np

from ledger_lab.studies.scaling.positive_fit import Floats, PositiveFit, fit_positive

FEWEST_SIZES = 3
"""Fewest sizes for a law with contention alone: with two sizes, every such law fits exactly."""
MISFIT_P_VALUE = 0.01
"""p-value below which a law does not fit: its deviations are too large for the spread between runs of the same size."""

_DRAWS = 2000
_LEVELS = (0.025, 0.975)
_VANISHES = 1e-6
"""Share of a term in the sum, at the largest batch, below which it is 0."""


class Kind(StrEnum):
    """What stays constant while the number of processes grows."""

    STRONG = "strong"
    """The environments of all processes together."""
    WEAK = "weak"
    """The environments of each process."""
    OTHER = "other"
    """Neither, or there is only one number of processes."""


@dataclass(frozen=True)
class Refusal:
    """Why a law is not fitted."""

    reason: str


class Law(StrEnum):
    """How a rate grows with the number of processes."""

    AMDAHL = "Amdahl"
    GUSTAFSON = "Gustafson"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure with its 95 % interval."""

    value: float
    interval: tuple[float, float] | None
    """``None`` without runs of the same size, whose spread is needed."""


class RateFit:
    """A law, fitted to the rates of runs.

    It predicts nothing beyond the measured sizes. Other laws fit the same runs as well, but differ there by more than
    the interval, and the test for lack of fit does not tell them apart. For example, with four sizes, a spread of 10 %
    between runs, and a term that the law does not contain, at least half of the wrong laws would pass the test, and
    hardly any interval would contain the rate at twice the largest size.
    """

    def __init__(self, law: Law, sizes: Sequence[int], rates: Sequence[float], *, seed: int = 0) -> None:
        """Fit a law.

        Args:
            law: The law.
            sizes: Processes of each run, at least 1.
            rates: Its rate, in any unit; positive.
            seed: Seed of the interval's random numbers.

        Raises:
            ValueError: If there are too few sizes for the law.
        """
        self.law, self.sizes = law, tuple(sorted(set(sizes)))
        if len(self.sizes) < FEWEST_SIZES:
            raise ValueError(f"{law}'s law needs {FEWEST_SIZES} sizes, and there are {len(self.sizes)}")
        counts, speeds = np.asarray(sizes, float), np.asarray(rates, float)
        measured = speeds if law is Law.GUSTAFSON else counts / speeds
        terms = self._terms(counts)
        self._fit = fit_positive(terms, measured, None, draws=_DRAWS, generator=np.random.default_rng(seed))
        logs, fitted = np.log(measured), np.log(terms @ self._fit.coefficients)
        self.misfit_p_value = _misfit(logs, fitted, counts, self._fit)
        """p-value of the deviations from the law; ``None`` without runs of the same size."""
        self.largest_deviation = max(
            float(np.expm1(abs((logs - fitted)[counts == size].mean()))) for size in self.sizes
        )
        """Largest relative deviation of a size from the law, by the geometric mean of its runs."""

    @property
    def fits(self) -> bool:
        """Whether the law may be right, as far as the runs can tell."""
        return self.misfit_p_value is None or self.misfit_p_value >= MISFIT_P_VALUE

    @property
    def single_rate(self) -> Figure | None:
        """The fitted rate of one process; ``None`` if no run had one."""
        if self.sizes[0] > 1:
            return None
        return self._figure(lambda coefficients: self._rate(coefficients, 1.0))

    @property
    def contention(self) -> Figure:
        """σ: the share of the work that does not become faster with more processes."""
        term = 0 if self.law is Law.GUSTAFSON else 1
        single = self._terms(np.ones(1))[0]
        return self._figure(lambda coefficients: coefficients[:, term] / (coefficients @ single))

    def at(self, processes: int) -> Figure:
        """Return the fitted rate of a number of processes.

        Args:
            processes: Within the measured sizes.

        Raises:
            ValueError: If the law does not fit, or the size is outside of the measured ones.
        """
        if not self.fits:
            raise ValueError(f"{self.law}'s law does not fit the runs (p = {self.misfit_p_value:.2g})")
        smallest, largest = self.sizes[0], self.sizes[-1]
        if not smallest <= processes <= largest:
            raise ValueError(f"{processes} processes are outside of the measured sizes, {smallest} to {largest}")
        return self._figure(lambda coefficients: self._rate(coefficients, float(processes)))

    def _rate(self, coefficients: Floats, processes: float) -> Floats:
        """Return the rate for each set of coefficients."""
        sums = coefficients @ self._terms(np.array([processes]))[0]
        return sums if self.law is Law.GUSTAFSON else processes / sums

    def _figure(self, read: Callable[[Floats], Floats]) -> Figure:
        """Return a figure; without an interval if nothing is known about the spread between runs."""
        return _figure(self._fit, read, has_interval=self.misfit_p_value is not None)

    def _terms(self, processes: Floats) -> Floats:
        """Return the terms of the law's sum; shape (sizes, terms)."""
        ones = np.ones_like(processes)
        return np.stack([ones, processes if self.law is Law.GUSTAFSON else processes - 1], axis=1)


def _misfit(measured: Floats, fitted: Floats, sizes: Floats, fit: PositiveFit) -> float | None:
    """Return the p-value of the F test for lack of fit; ``None`` without runs of the same size."""
    from scipy.special import fdtrc

    groups = [measured[sizes == size] for size in np.unique(sizes)]
    repeated, superfluous = len(measured) - len(groups), len(groups) - len(fit.coefficients)
    if not repeated or not superfluous:
        return None
    within = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    between = float(((measured - fitted) ** 2).sum()) - within
    if within == 0:
        return 0.0 if between > 0 else 1.0
    return float(fdtrc(superfluous, repeated, max(between, 0.0) / superfluous / (within / repeated)))


@dataclass(frozen=True, kw_only=True)
class TargetRun:
    """What a training needed to its target."""

    batch: int
    """Samples per iteration, over all processes."""
    samples: float
    """Samples until the target was reached. For a run that did not reach it, the samples until it ended."""
    reached: bool
    limit: float
    """Samples at which the run would have ended without the target. If something else ended the run, the same as
    :attr:`samples`."""


class BatchFit:
    """The law, fitted to trainings with several batches. Runs that ended short of the target count as censored."""

    def __init__(self, runs: Sequence[TargetRun], *, seed: int = 0) -> None:
        """Fit the law.

        Args:
            runs: Trainings with the same target on the same panel.
            seed: Seed of the interval's random numbers.

        Raises:
            ValueError: If too few runs with too few batches reached the target. The message says what is missing.
        """
        self.batches = tuple(sorted({run.batch for run in runs}))
        reached = {run.batch for run in runs if run.reached}
        if len(reached) < FEWEST_SIZES:
            raise ValueError(
                f"samples to the target need {FEWEST_SIZES} batches with runs that reached it, and there are "
                f"{len(reached)}"
            )
        self.runs = len(runs)
        self.censored = sum(not run.reached for run in runs)
        """Runs that ended short of the target."""
        self._largest = self.batches[-1]
        batches = np.array([run.batch for run in runs], float)
        limits = np.array([run.limit if run.reached else run.samples for run in runs], float)
        samples = np.array([run.samples for run in runs], float)
        self._repeated = sum(run.reached for run in runs) > len(reached)
        self._fit = fit_positive(
            self._terms(batches), samples, limits, draws=_DRAWS, generator=np.random.default_rng(seed)
        )

    @property
    def fewest_samples(self) -> Figure:
        """E_min: the samples to the target with small batches."""
        return self._figure(lambda coefficients: coefficients[:, 0])

    @property
    def critical_batch(self) -> Figure:
        """B_crit [samples]; infinite, as may be the end of its interval, if larger batches need no more samples."""
        return self._figure(self._critical)

    def at(self, batch: int) -> Figure:
        """Return the samples to the target with a batch.

        Args:
            batch: Samples per iteration, within the measured batches.

        Raises:
            ValueError: If the batch is outside of the measured ones.
        """
        if not self.batches[0] <= batch <= self._largest:
            raise ValueError(
                f"a batch of {batch} is outside of the measured batches, {self.batches[0]} to {self._largest}"
            )
        return self._figure(lambda coefficients: coefficients @ self._terms(np.array([float(batch)]))[0])

    def _terms(self, batches: Floats) -> Floats:
        """Return the terms of the sum, the second relative to the largest batch; shape (batches, 2)."""
        return np.stack([np.ones_like(batches), batches / self._largest], axis=1)

    def _critical(self, coefficients: Floats) -> Floats:
        """Return the critical batch for each set of coefficients."""
        fixed, growing = coefficients.T
        grows = growing > _VANISHES * (fixed + growing)
        return np.where(grows, self._largest * fixed / np.where(grows, growing, 1.0), np.inf)

    def _figure(self, read: Callable[[Floats], Floats]) -> Figure:
        """Return a figure; without an interval if no two runs with the same batch reached the target."""
        return _figure(self._fit, read, has_interval=self._repeated, method="inverted_cdf")  # some may be infinite


def _figure(
    fit: PositiveFit,
    read: Callable[[Floats], Floats],
    *,
    has_interval: bool,
    method: Literal["linear", "inverted_cdf"] = "linear",
) -> Figure:
    """Return what is computed from each row of coefficients, with the interval of the draws."""
    low, high = np.quantile(read(fit.draws), _LEVELS, method=method)
    value = float(read(fit.coefficients[None])[0])
    return Figure(value=value, interval=(float(low), float(high)) if has_interval else None)
