"""How many samples a training needs to its target, as a function of its batch.

With ``B`` samples per iteration, ``E(B) = E_min (1 + B / B_crit)``: small batches need ``E_min`` samples, and at the
critical batch twice as many. Time shrinks with the batch until there, and costs grow beyond (McCandlish et al. 2018,
*An Empirical Model of Large-Batch Training*, equation 2.11, written for samples in place of steps).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ledger_lab.studies.scaling.laws import FEWEST_SIZES, Figure
from ledger_lab.studies.scaling.positive_fit import Floats, fit_positive

_DRAWS = 2000
_LEVELS = (0.025, 0.975)
_VANISHES = 1e-6
"""Share of a term in the sum, at the largest batch, below which it is 0."""


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

    def __post_init__(self) -> None:
        """Refuse figures that contradict each other.

        Raises:
            ValueError: If they do.
        """
        if self.batch < 1 or not 0 < self.samples < np.inf or (self.reached and self.samples >= self.limit):
            raise ValueError(f"{self} contradicts itself")


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
        return self._figure(self._fit.coefficients[0], self._fit.draws[:, 0])

    @property
    def critical_batch(self) -> Figure:
        """B_crit [samples]; infinite, as may be the end of its interval, if larger batches need no more samples."""
        return self._figure(self._critical(self._fit.coefficients[None])[0], self._critical(self._fit.draws))

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
        terms = self._terms(np.array([float(batch)]))
        return self._figure(self._fit.at(terms)[0], self._fit.drawn(terms)[:, 0])

    def _terms(self, batches: Floats) -> Floats:
        """Return the terms of the sum, the second relative to the largest batch; shape (batches, 2)."""
        return np.stack([np.ones_like(batches), batches / self._largest], axis=1)

    def _critical(self, coefficients: Floats) -> Floats:
        """Return the critical batch for each set of coefficients."""
        fixed, growing = coefficients.T
        grows = growing > _VANISHES * (fixed + growing)
        return np.where(grows, self._largest * fixed / np.where(grows, growing, 1.0), np.inf)

    def _figure(self, value: float, draws: Floats) -> Figure:
        """Return a figure; without an interval if no two runs with the same batch reached the target."""
        low, high = np.quantile(draws, _LEVELS, method="inverted_cdf")
        return Figure(value=float(value), interval=(float(low), float(high)) if self._repeated else None)
