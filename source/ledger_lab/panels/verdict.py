"""The verdict: when a run may claim that a checkpoint reaches the target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import ceil, exp, expm1, log1p, sqrt
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from ledger_lab.ledger import PanelResult

ERROR_BUDGET = 0.05
"""Highest probability that a run claims a target which its checkpoint does not reach."""

type Numbers = NDArray[np.float64]
"""A number for each run; shape (runs,), or () for a single run."""


@dataclass(frozen=True)
class Standing:
    """What a run has left of its error budget, and what its running proof may still risk.

    Numbers have the shape (runs,): the simulation of the rule judges many runs at once. A training has the shape ().
    """

    left: Numbers
    """Error budget outside the running proof."""
    stake: Numbers
    """Risk with which the running proof began; 0 before the first proof."""
    risk: Numbers
    """Highest probability that a policy at the target passes the running proof from here on; 1 after a pass."""
    panels: NDArray[np.int64]
    """Panels of the running proof that have ended."""

    @classmethod
    def of(cls, left: Numbers | float, runs: tuple[int, ...] = ()) -> Self:
        """Return the standing of runs that have proven nothing.

        Args:
            left: Their error budget, or that of each run.
            runs: Shape of the numbers.
        """
        return cls(np.full(runs, left), np.zeros(runs), np.zeros(runs), np.zeros(runs, dtype=np.int64))

    @property
    def passed(self) -> NDArray[np.bool_]:
        """Whether the running proof has passed."""
        return self.risk >= 1

    @property
    def after_proof(self) -> Numbers:
        """Error budget that is left when the running proof ends here: it returns at most its stake."""
        return self.left + np.minimum(self.stake, self.risk)


@dataclass(frozen=True)
class VerdictRule:
    """How many successes a checkpoint needs to pass. The rule is valid for any number of scored checkpoints in a run.

    Each checkpoint is *checked* on the panel of the run, which always has the same seeds. A checkpoint that passes its
    check is put to the *proof*: it is scored on fresh seeds. Only a proof that passes proves that the checkpoint
    reaches the target. A proof has one panel. After a near miss, further panels *extend* it, each on fresh seeds.

    **Why the error budget holds.** A proof begins with a stake ``s`` out of the run's budget ``b``. After each
    panel, its risk ``r`` is a function of the successes with two properties: it never falls as successes rise, and its
    expectation for a policy exactly at the target is at most the risk before the panel, also if the cells of the panel
    are not equally difficult (see :meth:`after`). The checkpoint passes when ``r`` reaches 1. For a policy at the
    target or below, ``r`` is therefore a non-negative supermartingale (``r / s`` is an e-value), and Ville's inequality
    bounds the probability of a pass at *any* panel by ``s``, whenever and for whatever reason the proof stops.
    A policy is at the target if the mean of its success rates in all cells is. A proof without a pass returns
    ``min(s, r)`` to the budget. It never returns more than it staked, because a gain of one checkpoint says nothing
    about the next. With ``b`` before a pass and 1 after a false one, the run's budget is a supermartingale, too: the
    probability of a false pass in the whole run is at most its first value, :attr:`error_budget`.

    **First panel.** It passes by an exact binomial test that may risk :attr:`stake` of the budget. For 90 % of 256
    episodes, 241 successes are needed at first.

    **Extension.** What the tests did not risk is multiplied by the likelihood ratio of the successes, given that the
    panel did not pass, between :meth:`alternative` and the target. If the ratio would lift the risk above 1, fewer
    successes pass, and what this saves is distributed over the others: hardly any risk is wasted.

    **Futility.** A proof goes on while its risk is at least :attr:`futility` times its stake. Else the newest
    checkpoint is checked. An extension occupies the held-out slots, so a low value delays better checkpoints.

    **Check.** A checkpoint passes the check unless its successes refute the target at :attr:`check_level`.
    A stricter check saves some proofs. But the seeds of the check never change: with a threshold at the target itself,
    13 % of policies with a constant success of 92 % would never get to a proof of 90 %.

    ``python -m benchmarks verdict`` simulates all this.

    Sources: Wald 1945 (likelihood ratio), Ville 1939, Howard et al. 2021 (Annals of Statistics 49:1055) and
    Waudby-Smith & Ramdas 2024 (JRSS B 86:1, testing by betting); Müller & Schäfer 2001 (Biometrics 57:886): the
    conditional error of a stopped test may be used by the next. Hoeffding 1956 (Annals of Mathematical Statistics
    27:713): sums of trials with unequal probabilities.
    """

    target_success: float
    """Target in (0, 1]."""
    error_budget: float = ERROR_BUDGET
    """Upper bound of the probability that a checkpoint below the target passes in a run, in (0, 1)."""
    stake: float = 0.3
    """Share of the remaining budget that the first panel of a proof may risk, in (0, 1)."""
    extension: float = 0.2
    """Share of the remaining budget that its extension may risk besides, in [0, 1 - stake); 0 for no extension."""
    step: float = 1.2
    """How far the alternative lies above the target, in standard errors of one panel (of its log-odds); positive."""
    futility: float = 0.7
    """Share of its stake below which a proof ends, at least 0."""
    check_level: float | None = 0.1
    """Highest significance at which a check may refute the target, in (0, 1); ``None`` if the share of successes
    must reach the target."""
    any_cells: bool = True
    """Whether the proof holds for cells of unequal difficulty. Version 2 of the rule took all episodes of an extension
    to be equally difficult. Otherwise the mean of its risk can rise by up to a fifth in a panel."""

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
            and (self.check_level is None or 0 < self.check_level < 1)
        ):
            raise ValueError(f"no rule: {self}")

    @classmethod
    def of_version(cls, version: int, target_success: float, error_budget: float = ERROR_BUDGET) -> Self:
        """Return the rule that a run declared.

        Args:
            version: Version of the rule. By version 1, each proof has one panel, and a check must reach the
                target. By version 2, extensions were not proven for cells of unequal difficulty. Version 3 is the
                present one. Published records and pretrained policies were judged by all three.
            target_success: Target in (0, 1].
            error_budget: Upper bound of the probability that a checkpoint below the target passes.

        Raises:
            ValueError: If there is no such version, or a number outside its range.
        """
        if version == 1:
            return cls(target_success, error_budget, extension=0.0, check_level=None, any_cells=False)
        if version not in (2, RULE_VERSION):
            raise ValueError(f"no rule of version {version}")
        return cls(target_success, error_budget, any_cells=version > 2)

    def is_decidable(self, episodes: int) -> bool:
        """Tell whether there are enough episodes: whether success in every episode would prove the target.

        Args:
            episodes: Episodes of the panel, at least 1.
        """
        return self.first_needs(episodes) <= episodes

    def first_needs(self, episodes: int) -> int:
        """Return the fewest successes with which the first panel of a run's first proof passes.

        Args:
            episodes: Episodes of the panel, at least 1.

        Returns:
            The number of successes; the number of episodes plus 1 if even success in every episode is not enough.
        """
        return int(self.needs(self.begin(Standing.of(self.error_budget)), episodes))

    def first_pass_chance(self, success: float, episodes: int) -> float:
        """Return the probability that a policy passes the first panel of a run's first proof.

        Args:
            success: True success rate of the policy, in [0, 1].
            episodes: Episodes of the panel, at least 1.
        """
        return _error_by_successes(episodes, success)[self.first_needs(episodes)].item()

    def check_needs(self, episodes: int) -> int:
        """Return the fewest successes with which a checkpoint passes its check, so that a proof follows.

        Args:
            episodes: Episodes of the check, at least 1.
        """
        if self.check_level is None:
            return int(np.searchsorted(np.arange(episodes) / episodes, self.target_success))
        fewer = 1 - _error_by_successes(episodes, self.target_success)[1:]  # P(at most 0, 1, ... successes)
        return int(np.argmax(fewer > self.check_level))

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
        """Return the standing at the beginning of a proof; the proof before it ends.

        Args:
            standing: The standing before.
        """
        left = standing.after_proof
        stake = (self.stake + self.extension) * left
        return Standing(left - stake, stake, stake, np.zeros_like(standing.panels))

    def needs(self, standing: Standing, episodes: int) -> NDArray[np.int64]:
        """Return the fewest successes with which the next panel of the running proof passes.

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
        """Return the standing after a panel of the running proof.

        **Proof that the risk is not expected to rise.** Let ``S`` be the successes of ``n`` independent episodes whose
        probabilities of success may differ and have the mean ``p``, the target, and let ``L`` be the likelihood ratio
        for equal probabilities, ``exp(shift * S)`` up to a factor. Hoeffding (1956) shows for such sums:

        1. The expectation of a convex function of ``S`` is at most that for equal probabilities (his theorem 3).
        2. So is ``P(S >= k)`` for each integer ``k >= np + 1`` (his theorem 4).

        The risk afterwards is ``r(s) = 1`` from ``c`` successes on, and ``K L(s)`` with fewer. With ``m`` the smallest
        integer that is at least ``np``, and ``d = L(m) - L(m - 1)``, consider for ``c > m`` the larger function
        ``r(s) + K d max(0, s - c + 1)``. It is the sum of a convex function, which is ``K L`` up to ``m`` and goes on
        in a line with the slope ``K d``, and of a function that is 0 up to ``m`` and then never falls, because ``L`` is
        convex and ``K L(c - 1) < 1``: a sum of indicators of ``S >= k`` with weights of at least 0, for integers
        ``k >= np + 1``. So its expectation is at most that for equal probabilities, ``P(S >= c) + K A(c)`` with
        ``A(c) = E[L(S); S < c] + d E[max(0, S - c + 1)]``. ``K`` is chosen so that this is the risk before the panel.
        What is lost by the second term of ``A`` is about 1 % of the first.

        Where this would need fewer than ``m + 1`` successes, or ``K L(c - 1)`` is not below 1, ``K`` is the risk before
        the panel, and ``c`` the fewest successes with ``K L(c) >= 1``. Then ``r`` is at most ``K L``, which is convex,
        and whose expectation is at most ``K``. With a mean below the target, ``r`` is expected to be lower still,
        because it never falls as ``s`` rises.

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
        """Tell whether the running proof is extended by a further panel.

        Args:
            standing: The standing after a panel.
        """
        promising = standing.risk >= self.futility * standing.stake
        return ~standing.passed & promising & (standing.panels > 0) & (self.extension > 0)

    def _panel(self, standing: Standing, episodes: int) -> tuple[NDArray[np.int64], Numbers]:
        """Return the successes that a panel needs, and the factor of the likelihood ratio if it does not pass."""
        if episodes < 1:
            raise ValueError(f"a panel of {episodes} episodes")
        errors = _error_by_successes(episodes, self.target_success)
        tested = np.where(standing.panels == 0, self.stake / (self.stake + self.extension), 0.0)
        needed = np.searchsorted(-errors, -tested * standing.risk)
        if not self.extension:
            return needed, standing.risk - errors[needed]
        alternative, shift = self.alternative(episodes), self._shift(episodes)
        ratio = _likelihood_ratio(episodes, self.target_success, shift)
        weights = _weights(episodes, self.target_success, alternative, shift, self.any_cells)
        # Risks from which on 0, 1, ... successes reach 1, if one success more passes in any case. They fall.
        reaching_1 = errors[1:] + weights[1:] / ratio
        needed = np.minimum(needed, np.searchsorted(-reaching_1, -standing.risk))
        if self.any_cells:
            needed = np.maximum(needed, min(ceil(episodes * self.target_success), episodes) + 1)
        kept = (standing.risk - errors[needed]) / np.maximum(weights[needed], np.finfo(float).tiny)
        if not self.any_cells:
            return needed, kept
        plain = np.searchsorted(ratio, 1 / np.maximum(standing.risk, np.finfo(float).tiny))
        is_plain = (plain < needed) | (kept * ratio[needed - 1] >= 1)
        return np.where(is_plain, plain, needed), np.where(is_plain, standing.risk, kept)


@dataclass(frozen=True)
class NextPanel:
    """What the next panel of a checkpoint is for, and what passes it."""

    purpose: Literal["check", "proof"]
    proof: int
    """Number of the proof in the run, from 1; for a check, that of the next proof."""
    extension: int
    """Number of the panel within the proof, from 0."""
    needed: int
    """Successes with which the checkpoint passes."""


class Verdict:
    """The judge of a run: says which panel comes next, counts its result, and knows what is proven.

    A training, the recording API, a resumed run and the audit of a ledger all follow it. It depends on the results of
    the run alone, in the order of their proofs: an attempt that resumes feeds the results of earlier attempts.
    """

    def __init__(self, rule: VerdictRule, results: Iterable[PanelResult] = ()) -> None:
        """Begin a run.

        Args:
            rule: The rule that the run declared.
            results: Results that the run has already, to :meth:`feed`.
        """
        self.rule = rule
        self.standing = Standing.of(rule.error_budget)
        """What the run may still risk."""
        self._place = (0, 0)
        """Proof and extension of the newest panel of a proof."""
        self._extends: str | None = None
        """SHA-256 of the checkpoint whose proof may be extended; ``None`` if there is none."""
        proofs = (row for row in results if row.purpose == "proof")
        for row in sorted(proofs, key=lambda row: (row.proof or 0, row.extension)):
            self.feed(row)

    @property
    def proven(self) -> bool:
        """Whether the newest proof has passed."""
        return bool(self.standing.passed)

    def extends(self, checkpoint_sha256: str) -> bool:
        """Tell whether the next panel of a checkpoint's proof extends it: whether the last was a near miss."""
        return self._extends == checkpoint_sha256

    def check(self, episodes: int) -> NextPanel:
        """Return the check of a new checkpoint.

        Args:
            episodes: Episodes of the panel, at least 1.
        """
        return NextPanel("check", self._place[0] + 1, 0, self.rule.check_needs(episodes))

    def proof(self, checkpoint_sha256: str, episodes: int) -> NextPanel:
        """Return the next panel of a checkpoint's proof: an extension after its near miss, or a first panel.

        Args:
            checkpoint_sha256: The checkpoint, which has passed its check.
            episodes: Episodes of the panel, at least 1. They may be chosen before the outcomes are known.
        """
        number, extension = self._place
        extends = self.extends(checkpoint_sha256)
        number, extension = (number, extension + 1) if extends else (number + 1, 0)
        standing = self.standing if extends else self.rule.begin(self.standing)
        return NextPanel("proof", number, extension, int(self.rule.needs(standing, episodes)))

    def after(self, result: PanelResult, episodes: int) -> NextPanel | None:
        """Return the panel that follows from the newest result of a checkpoint; ``None`` if its turn is over.

        Args:
            result: The result, which has been fed.
            episodes: Episodes of the panel.
        """
        sha256 = result.checkpoint_sha256
        goes_on = result.passes if result.purpose == "check" else self.extends(sha256)
        return self.proof(sha256, episodes) if goes_on and not self.proven else None

    def feed(self, result: PanelResult) -> None:
        """Count the result of a panel.

        Args:
            result: The result. A check spends nothing. The episodes of an invalid result count as failures, because
                what makes it invalid may depend on the episodes.
        """
        if result.purpose == "proof":
            successes = result.outcomes.successes if result.invalid is None else 0
            place = (result.proof or 0, result.extension)
            self.count(place, result.checkpoint_sha256, successes, result.outcomes.episodes, result.invalid is None)

    def count(
        self, place: tuple[int, int], checkpoint_sha256: str, successes: int, episodes: int, valid: bool = True
    ) -> None:
        """Count a panel of a proof.

        Args:
            place: Numbers of the proof and of the extension.
            checkpoint_sha256: The checkpoint.
            successes: Its successes.
            episodes: Episodes of the panel.
            valid: Whether the outcomes are valid. An invalid panel is not extended.
        """
        before = self.rule.begin(self.standing) if place[1] == 0 else self.standing
        self.standing = self.rule.after(before, successes, episodes)
        self._place = place
        self._extends = checkpoint_sha256 if valid and self.rule.goes_on(self.standing) else None


RULE_VERSION = 3
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
def _weights(episodes: int, target: float, alternative: float, shift: float, any_cells: bool) -> Numbers:
    """Return ``A(c)`` of :meth:`VerdictRule.after` for ``c`` from 0 to the number of episodes plus 1."""
    fails = 1 - _error_by_successes(episodes, alternative)
    if not any_cells:
        return fails
    ratio, mean = _likelihood_ratio(episodes, target, shift), min(ceil(episodes * target), episodes)
    beyond = np.cumsum(_error_by_successes(episodes, target)[::-1])[::-1]
    return fails + (ratio[mean] - ratio[mean - 1]) * beyond
