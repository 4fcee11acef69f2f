"""The verdict: when a run may claim that a checkpoint reaches the target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import exp, expm1, log1p, sqrt
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ledger_lab.ledger import PanelResult

ERROR_BUDGET = 0.05
"""Highest probability that a run claims a target which its checkpoint does not reach."""

type Numbers = NDArray[np.float64]
"""A number for each run; shape (runs,), or () for a single run."""


@dataclass(frozen=True)
class Standing:
    """What a run has left of its error budget, and what its running confirmation may still risk.

    Numbers have the shape (runs,): the simulation of the rule judges many runs at once. A training has the shape ().
    """

    left: Numbers
    """Error budget outside the running confirmation."""
    stake: Numbers
    """Risk with which the running confirmation began; 0 before the first confirmation."""
    risk: Numbers
    """Highest probability that a policy at the target passes the running confirmation from here on; 1 after a pass."""
    panels: NDArray[np.int64]
    """Panels of the running confirmation that have ended."""

    @classmethod
    def of(cls, left: Numbers | float, runs: tuple[int, ...] = ()) -> Self:
        """Return the standing of runs that have confirmed nothing.

        Args:
            left: Their error budget, or that of each run.
            runs: Shape of the numbers.
        """
        return cls(np.full(runs, left), np.zeros(runs), np.zeros(runs), np.zeros(runs, dtype=np.int64))

    @property
    def passed(self) -> NDArray[np.bool_]:
        """Whether the running confirmation has proven its checkpoint."""
        return self.risk >= 1

    @property
    def after_confirmation(self) -> Numbers:
        """Error budget that is left when the running confirmation ends here: it returns at most its stake."""
        return self.left + np.minimum(self.stake, self.risk)


@dataclass(frozen=True)
class VerdictRule:
    """How many successes a checkpoint needs to pass. The rule is valid for any number of scored checkpoints in a run.

    Each checkpoint is *screened* on the panel of the run, which always has the same seeds. A checkpoint that passes the
    screening is *confirmed* on fresh seeds. Only a confirmation proves that a checkpoint reaches the target. A
    confirmation has one panel. After a near miss it is *extended* by further panels, each on fresh seeds.

    **Why the error budget holds.** A confirmation begins with a stake ``s`` out of the run's budget ``b``. After each
    panel, its risk ``r`` is a function of the successes with two properties: it never falls as successes rise, and its
    expectation for a policy exactly at the target is the risk before the panel. The checkpoint passes when ``r``
    reaches 1. For a policy at the target or below, ``r`` is therefore a non-negative supermartingale (a test
    martingale, ``r / s`` is an e-value), and Ville's inequality bounds the probability of a pass at *any* panel by
    ``s``, whenever and for whatever reason the confirmation stops. A confirmation without a pass returns
    ``min(s, r)`` to the budget. It never returns more than it staked, because a gain of one checkpoint says nothing
    about the next. With ``b`` before a pass and 1 after a false one, the run's budget is a supermartingale, too: the
    probability of a false pass in the whole run is at most its first value, :attr:`error_budget`.

    **First panel.** It passes by an exact binomial test that may risk :attr:`stake` of the budget. For 90 % of 256
    episodes, 241 successes are needed at first.

    **Extension.** What the tests did not risk is multiplied by the likelihood ratio of the successes, given that the
    panel did not pass, between :meth:`alternative` and the target. If the ratio would lift the risk above 1, fewer
    successes pass, and what this saves is distributed over the others: no risk is wasted.

    **Futility.** A confirmation goes on while its risk is at least :attr:`futility` times its stake. Else the newest
    checkpoint is screened. An extension occupies the held-out slots, so a low value delays better checkpoints.

    **Screening.** A checkpoint passes the screening unless its successes refute the target at :attr:`screening_level`.
    A stricter screening saves some confirmations. But the seeds of the screening never change: with a threshold at the
    target itself, 13 % of policies with a constant success of 92 % would never get to a confirmation of 90 %.

    ``python -m benchmarks verdict`` simulates all this.

    Sources: Wald 1945 (likelihood ratio), Ville 1939, Howard et al. 2021 (Annals of Statistics 49:1055) and
    Waudby-Smith & Ramdas 2024 (JRSS B 86:1, testing by betting); Müller & Schäfer 2001 (Biometrics 57:886): the
    conditional error of a stopped test may be used by the next.
    """

    target_success: float
    """Target in (0, 1]."""
    error_budget: float = ERROR_BUDGET
    """Upper bound of the probability that a checkpoint below the target passes in a run, in (0, 1)."""
    stake: float = 0.3
    """Share of the remaining budget that the first panel of a confirmation may risk, in (0, 1)."""
    extension: float = 0.2
    """Share of the remaining budget that its extension may risk besides, in [0, 1 - stake); 0 for no extension."""
    step: float = 1.2
    """How far the alternative lies above the target, in standard errors of one panel (of its log-odds); positive."""
    futility: float = 0.7
    """Share of its stake below which a confirmation ends, at least 0."""
    screening_level: float | None = 0.1
    """Highest significance at which a screening may refute the target, in (0, 1); ``None`` if the share of successes
    must reach the target."""

    def __post_init__(self) -> None:
        """Refuse fields that are not probabilities.

        Raises:
            ValueError: If a field lies outside its range.
        """
        if not (
            0 < self.target_success <= 1
            and 0 < self.error_budget < 1
            and 0 < self.stake < 1
            and 0 <= self.extension < 1 - self.stake
            and self.step > 0
            and self.futility >= 0
            and (self.screening_level is None or 0 < self.screening_level < 1)
        ):
            raise ValueError(f"no rule: {self}")

    @classmethod
    def of_version(cls, version: int, target_success: float, error_budget: float = ERROR_BUDGET) -> Self:
        """Return the rule that a run declared.

        Args:
            version: Version of the rule. By version 1, each confirmation has one panel, and a screening must reach the
                target. Version 2 is the present one.
            target_success: Target in (0, 1].
            error_budget: Upper bound of the probability that a checkpoint below the target passes.

        Raises:
            ValueError: If there is no such version, or a number outside its range.
        """
        if version == 1:
            return cls(target_success, error_budget, extension=0.0, screening_level=None)
        if version != RULE_VERSION:
            raise ValueError(f"no rule of version {version}")
        return cls(target_success, error_budget)

    def is_decidable(self, episodes: int) -> bool:
        """Tell whether there are enough episodes: whether success in every episode would prove the target.

        Args:
            episodes: Episodes of the panel, at least 1.
        """
        return self.first_needs(episodes) <= episodes

    def first_needs(self, episodes: int) -> int:
        """Return the fewest successes with which the first panel of a run's first confirmation passes.

        Args:
            episodes: Episodes of the panel, at least 1.

        Returns:
            The number of successes; the number of episodes plus 1 if even success in every episode is not enough.
        """
        return int(self.needs(self.begin(Standing.of(self.error_budget)), episodes))

    def first_pass_chance(self, success: float, episodes: int) -> float:
        """Return the probability that a policy passes the first panel of a run's first confirmation.

        Args:
            success: True success rate of the policy, in [0, 1].
            episodes: Episodes of the panel, at least 1.
        """
        return _error_by_successes(episodes, success)[self.first_needs(episodes)].item()

    def screening_needs(self, episodes: int) -> int:
        """Return the fewest successes with which a checkpoint passes its screening, so that a confirmation follows.

        Args:
            episodes: Episodes of the screening, at least 1.
        """
        if self.screening_level is None:
            return int(np.searchsorted(np.arange(episodes) / episodes, self.target_success))
        fewer = 1 - _error_by_successes(episodes, self.target_success)[1:]  # P(at most 0, 1, ... successes)
        return int(np.argmax(fewer > self.screening_level))

    def alternative(self, episodes: int) -> float:
        """Return the success rate that an extension is most sensitive to.

        The finer a panel, the closer the alternative is to the target: :attr:`step` standard errors of the log-odds.
        For 90 % of 256 episodes it is 92.0 %.

        Args:
            episodes: Episodes of the panel, at least 1.
        """
        raised = self.target_success * exp(self._shift(episodes))
        return raised / (1 - self.target_success + raised)

    def _shift(self, episodes: int) -> float:
        """Return the difference between the log-odds of the alternative and of the target."""
        variance = episodes * self.target_success * (1 - self.target_success)
        return min(self.step / sqrt(variance), _LARGEST_SHIFT) if variance else 0.0

    def begin(self, standing: Standing) -> Standing:
        """Return the standing at the beginning of a confirmation; the confirmation before it ends.

        Args:
            standing: The standing before.
        """
        left = standing.after_confirmation
        stake = (self.stake + self.extension) * left
        return Standing(left - stake, stake, stake, np.zeros_like(standing.panels))

    def needs(self, standing: Standing, episodes: int) -> NDArray[np.int64]:
        """Return the fewest successes with which the next panel of the running confirmation passes.

        Binomial probabilities require independent episodes; episodes of different seeds are independent.

        Args:
            standing: The standing before the panel.
            episodes: Episodes of the panel, at least 1.

        Returns:
            Number of successes of each run; the number of episodes plus 1 if not even success in every episode passes.

        Raises:
            ValueError: If ``episodes`` is less than 1.
        """
        return self._panel(standing, episodes)[0]

    def after(self, standing: Standing, successes: NDArray[np.int64] | int, episodes: int) -> Standing:
        """Return the standing after a panel of the running confirmation.

        Args:
            standing: The standing before the panel.
            successes: Successes of each run.
            episodes: Episodes of the panel, at least 1.

        Raises:
            ValueError: If ``episodes`` is less than 1.
        """
        needed, unspent = self._panel(standing, episodes)
        if self.extension:
            unspent = unspent * _likelihood_ratio(episodes, self.target_success, self._shift(episodes))[successes]
        risk = np.where(successes >= needed, 1.0, unspent)
        return Standing(standing.left, standing.stake, risk, standing.panels + 1)

    def goes_on(self, standing: Standing) -> NDArray[np.bool_]:
        """Tell whether the running confirmation is extended by a further panel.

        Args:
            standing: The standing after a panel.
        """
        promising = standing.risk >= self.futility * standing.stake
        return ~standing.passed & promising & (standing.panels > 0) & (self.extension > 0)

    def replay(self, results: Iterable[PanelResult]) -> Standing:
        """Return the standing after the confirmations of a run.

        Args:
            results: Scores of their panels. The episodes of an invalid score count as failures, because what makes a
                score invalid may depend on the episodes.
        """
        standing = Standing.of(self.error_budget)
        for row in sorted(results, key=lambda row: (row.confirmation or 0, row.extension)):
            if row.extension == 0:
                standing = self.begin(standing)
            successes = row.outcomes.successes if row.invalid is None else 0
            standing = self.after(standing, successes, row.outcomes.episodes)
        return standing

    def _panel(self, standing: Standing, episodes: int) -> tuple[NDArray[np.int64], Numbers]:
        """Return the successes that a panel needs, and the factor of the likelihood ratio if it does not pass."""
        if episodes < 1:
            raise ValueError(f"a panel of {episodes} episodes")
        errors = _error_by_successes(episodes, self.target_success)
        tested = np.where(standing.panels == 0, self.stake / (self.stake + self.extension), 0.0)
        needed = np.searchsorted(-errors, -tested * standing.risk)
        if not self.extension:
            return needed, standing.risk - errors[needed]
        alternative = self.alternative(episodes)
        reaching_1 = _risks_that_reach_1(episodes, self.target_success, alternative, self._shift(episodes))
        needed = np.minimum(needed, np.searchsorted(-reaching_1, -standing.risk))
        fails = 1 - _error_by_successes(episodes, alternative)[needed]
        return needed, (standing.risk - errors[needed]) / np.maximum(fails, np.finfo(float).tiny)


RULE_VERSION = 2
"""Version of the rule that new runs declare."""

_LARGEST_SHIFT = 3.0
"""Largest difference in log-odds between alternative and target. Panels with less than 0.16 expected successes or
failures reach it. A policy at a more distant alternative would pass so surely that its failures round to 0."""

_LARGEST_LOGARITHM = 700.0
"""Largest logarithm of a likelihood ratio that is a number."""


@cache
def _error_by_successes(episodes: int, success: float) -> Numbers:
    """Return the probabilities that a policy has at least 0, 1, ..., ``episodes + 1`` successes."""
    from scipy.special import bdtrc  # scipy.stats takes a second to import, at the start of every training

    return np.asarray(bdtrc(np.arange(-1.0, episodes + 1), episodes, success))


@cache
def _likelihood_ratio(episodes: int, target: float, shift: float) -> Numbers:
    """Return the likelihood of 0, 1, ..., ``episodes`` successes by the alternative, over that by the target.

    Written with the shift of the log-odds, because the alternative may round to 1.
    """
    logarithm = np.arange(episodes + 1) * shift - episodes * log1p(target * expm1(shift))
    return np.exp(np.clip(logarithm, -_LARGEST_LOGARITHM, _LARGEST_LOGARITHM))


@cache
def _risks_that_reach_1(episodes: int, target: float, alternative: float, shift: float) -> Numbers:
    """Return the risks from which on 0, 1, ..., ``episodes`` successes reach 1, if one success more passes in any case.

    Written as ``1 - sum over s < c of P(s) (1 - L(s) / L(c - 1))``, with the likelihood ratio L that rises with the
    successes, the risk falls with the successes ``c - 1``: the table is sorted.
    """
    at_target, at_alternative = (_error_by_successes(episodes, success)[1:] for success in (target, alternative))
    return at_target + (1 - at_alternative) / _likelihood_ratio(episodes, target, shift)
