"""The verdict: when a run may claim that a checkpoint reaches the target."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from operator import neg

ERROR_BUDGET = 0.05
"""Highest probability that a run claims a target which its checkpoint does not reach."""


@dataclass(frozen=True)
class VerdictRule:
    """How many successes a checkpoint needs to pass. The rule is valid for any number of scored checkpoints in a run.

    Each checkpoint is *screened* on the panel of the run, which always has the same seeds. A checkpoint that passes the
    screening is *confirmed* on fresh seeds. Only a confirmation proves that a checkpoint reaches the target.

    A checkpoint below the target passes the k-th confirmation of a run with a probability of at most
    :meth:`confirmation_error`, whatever happened before. These probabilities add up to less than :attr:`error_budget`.
    By the union bound, the probability of a false claim in the whole run is therefore within the budget, too.

    **Confirmation.** A confirmation may risk the share :attr:`stake` of the remaining budget. The actual risk is lower,
    because successes are whole numbers; the difference stays in the budget. For 90 % of 256 episodes, confirmations 1,
    2, 5, 10 and 20 need 241, 242, 243, 244 and 247 successes. A small stake makes early confirmations harder; a large
    stake makes later confirmations harder. ``python -m benchmarks verdict`` simulates both. Policies with a constant
    true success of 93 % need 6 panels to pass (median; 10 panels with a stake of 0.1). Of policies whose success rises
    to 95 % over 100 panels along an S-curve, fewer than 0.1 % never pass (more than 3 % with a stake of 0.5).

    **Screening.** A checkpoint passes the screening if its share of successes reaches the target. A stricter screening,
    with the successes that the confirmation needs, would save some failed confirmations. But the seeds of the screening
    never change: of policies with a constant success of 95 %, 21 % have fewer than 241 successes on these seeds. These
    policies would never get to a confirmation.
    """

    target_success: float
    """Target in (0, 1]."""
    error_budget: float = ERROR_BUDGET
    """Upper bound of the probability that a checkpoint below the target passes in a run, in (0, 1)."""
    stake: float = 0.3
    """Share of the remaining budget that a confirmation may risk, in (0, 1)."""

    def __post_init__(self) -> None:
        """Refuse fields that are not probabilities.

        Raises:
            ValueError: If a field lies outside its range.
        """
        if not (0 < self.target_success <= 1 and 0 < self.error_budget < 1 and 0 < self.stake < 1):
            raise ValueError(f"no rule: {self}")

    def is_decidable(self, episodes: int) -> bool:
        """Tell whether there are enough episodes: whether success in every episode would prove the target.

        Args:
            episodes: Episodes of each confirmation, at least 1.
        """
        return self.confirmation_needs(1, episodes) <= episodes

    def screening_needs(self, k: int, episodes: int) -> int:
        """Return the fewest successes with which a checkpoint goes on to the k-th confirmation.

        Args:
            k: Number of the confirmation in its run, from 1.
            episodes: Episodes of the screening and of each confirmation, at least 1.

        Returns:
            The number of successes; the number of episodes plus 1 if no confirmation can pass any more.
        """
        if self.confirmation_needs(k, episodes) > episodes:
            return episodes + 1
        return bisect_left(range(episodes), self.target_success, key=lambda successes: successes / episodes)

    def confirmation_needs(self, k: int, episodes: int) -> int:
        """Return the fewest successes that pass the k-th confirmation of a run.

        It is the fewest successes whose one-sided Clopper-Pearson bound reaches the target
        (:func:`~ledger_lab.panels.intervals.lower_bound`). The confidence of the bound is 1 minus the risk that the
        confirmation may take. The bound requires independent episodes; episodes of different seeds are independent.

        Args:
            k: Number of the confirmation in its run, from 1.
            episodes: Episodes of each confirmation, at least 1.

        Returns:
            The number of successes; the number of episodes plus 1 if even success in every episode is not enough.

        Raises:
            ValueError: If ``k`` or ``episodes`` is less than 1.
        """
        return self._confirmation(k, episodes)[0]

    def confirmation_error(self, k: int, episodes: int) -> float:
        """Return the risk of the k-th confirmation: the probability that a policy exactly at the target passes it.

        The probability is lower for a policy below the target.

        Args:
            k: Number of the confirmation in its run, from 1.
            episodes: Episodes of each confirmation, at least 1.

        Returns:
            The probability; 0 if no policy can pass.

        Raises:
            ValueError: If ``k`` or ``episodes`` is less than 1.
        """
        return self._confirmation(k, episodes)[1]

    def _confirmation(self, k: int, episodes: int) -> tuple[int, float]:
        """Return the number of successes that a confirmation needs, and its risk."""
        if k < 1 or episodes < 1:
            raise ValueError(f"confirmation {k} on {episodes} episodes")
        errors = _error_by_successes(episodes, self.target_success)
        left, needed = self.error_budget, 0
        for _ in range(k):
            needed = bisect_left(errors, -self.stake * left, key=neg)
            left -= errors[needed]
        return needed, errors[needed]


@cache
def _error_by_successes(episodes: int, target_success: float) -> tuple[float, ...]:
    """Return the probabilities that a policy at the target has at least 0, 1, ..., ``episodes + 1`` successes."""
    from scipy.special import bdtrc  # scipy.stats takes a second to import, at the start of every training

    return tuple(float(bdtrc(float(successes), episodes, target_success)) for successes in range(-1, episodes + 1))
