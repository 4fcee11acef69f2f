"""When a run may claim that one of its checkpoints reaches the target."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from operator import neg

ERROR_BUDGET = 0.05
"""Probability that a run may claim a target which the claimed checkpoint does not reach."""


@dataclass(frozen=True)
class VerdictRule:
    """How many successes pass a checkpoint, whatever the number of looks that a run takes.

    Each checkpoint is *screened* on the panel of the run, whose seeds stay the same. A checkpoint that passes is
    *confirmed* on fresh seeds. Only a confirmation proves anything. The k-th confirmation of a run lets a checkpoint
    below the target pass with at most the probability :meth:`confirmation_error`, whatever happened before. These
    probabilities add up to less than :attr:`error_budget`. By the union bound the run as a whole errs no more often.

    **What a confirmation may risk** is the part :attr:`stake` of the budget that is left. It risks less, because
    successes are whole numbers, and the rest stays in the budget. For 90 % of 256 episodes, confirmations 1, 2, 5, 10
    and 20 need 241, 242, 243, 244 and 247 successes. A small stake makes the first of them harder, a large one the
    later ones. By ``python -m benchmarks verdict``, policies that stay at a true success of 93 % take 6 panels to their
    pass (the median; 10 with a stake of 0.1), and of policies that rise to 95 % over 100 panels in an S, fewer than
    0.1 % never pass (more than 3 % with a stake of 0.5).

    **What passes a screening** is a share that reaches the target itself. To ask it for the successes of the
    confirmation would save confirmations in vain, but the screening's seeds stay the same: of policies that stay at
    95 %, 21 % would fall short of 241 on them whenever they are looked at, and never come to a confirmation.
    """

    target_success: float
    """Target in (0, 1]."""
    error_budget: float = ERROR_BUDGET
    """Upper bound of the probability that a run passes a checkpoint below the target, in (0, 1)."""
    stake: float = 0.3
    """Part of the budget left that one confirmation may risk, in (0, 1)."""

    def __post_init__(self) -> None:
        """Refuse what are no probabilities.

        Raises:
            ValueError: If a field lies outside its range.
        """
        if not (0 < self.target_success <= 1 and 0 < self.error_budget < 1 and 0 < self.stake < 1):
            raise ValueError(f"no rule: {self}")

    def is_decidable(self, episodes: int) -> bool:
        """Tell whether a run can pass at all: whether successes in all episodes would prove the target.

        Args:
            episodes: Episodes of each confirmation, at least 1.
        """
        return self.confirmation_needs(1, episodes) <= episodes

    def screening_needs(self, k: int, episodes: int) -> int:
        """Return the fewest successes that make a checkpoint worth the k-th confirmation.

        Args:
            k: Number of the confirmation in its run, from 1.
            episodes: Episodes of the screening and of each confirmation, at least 1.

        Returns:
            The number of successes, one more than there are episodes where no confirmation can pass any more.
        """
        if self.confirmation_needs(k, episodes) > episodes:
            return episodes + 1
        return bisect_left(range(episodes), self.target_success, key=lambda successes: successes / episodes)

    def confirmation_needs(self, k: int, episodes: int) -> int:
        """Return the fewest successes that pass the k-th confirmation of a run.

        They are the fewest whose one-sided Clopper-Pearson bound (:func:`~ledger_lab.panels.intervals.lower_bound`),
        at a confidence of 1 less what the confirmation may risk, reaches the target. That takes episodes which are
        independent of each other, as those of different seeds are.

        Args:
            k: Number of the confirmation in its run, from 1.
            episodes: Episodes of each confirmation, at least 1.

        Returns:
            The number of successes, one more than there are episodes where not even all of them would do.

        Raises:
            ValueError: If there are no episodes, or no such confirmation.
        """
        return self._confirmation(k, episodes)[0]

    def confirmation_error(self, k: int, episodes: int) -> float:
        """Return what the k-th confirmation risks: the probability that a policy at the target passes it.

        A policy below the target passes it less often.

        Args:
            k: Number of the confirmation in its run, from 1.
            episodes: Episodes of each confirmation, at least 1.

        Returns:
            The probability, 0 where nothing can pass.

        Raises:
            ValueError: If there are no episodes, or no such confirmation.
        """
        return self._confirmation(k, episodes)[1]

    def _confirmation(self, k: int, episodes: int) -> tuple[int, float]:
        """Return the successes that a confirmation needs, and what it risks."""
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
