"""Targets and losses of critics that estimate the mean of the return, or its distribution."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import torch
from torch.nn.functional import log_softmax, mse_loss, softmax

from ledger_lab.off_policy.value_distribution import ValueDistribution

type Estimate = tuple[torch.Tensor, dict[str, Any]]
"""What a model of a critic gives: mean returns of shape (n, 1), and further outputs."""

_LOGITS = "logits"
"""Output of a critic that holds the logits of its distribution, of shape (n, atoms)."""

_BEYOND = "Target / Target beyond the range (share)"
"""Title of the figure that tells whether the range of returns is too narrow."""


class Critics(Protocol):
    """How critics learn."""

    def targets(
        self,
        following: Sequence[Estimate],
        rewards: torch.Tensor,
        bootstrap: torch.Tensor,
        penalty: torch.Tensor | float,
    ) -> torch.Tensor:
        """Return what the critics learn, from the lowest estimate of what follows.

        Args:
            following: Estimates of target critics, for the next observations and actions.
            rewards: Shape (n, 1).
            bootstrap: Factor of what follows; 0 after a termination. Shape (n, 1).
            penalty: Is subtracted from what follows, of shape (n, 1).
        """

    def means(self, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean returns of targets, of shape (n, 1)."""

    def losses(self, estimate: Estimate, targets: torch.Tensor) -> torch.Tensor:
        """Return the losses of a critic, of shape (n, 1).

        Args:
            estimate: Its estimate.
            targets: Result of :meth:`targets`.
        """

    def figures(self) -> dict[str, torch.Tensor]:
        """Return figures of the last targets, by their titles in TensorBoard."""


class MeanCritics:
    """Critics that estimate the mean of the return, as the library's own."""

    def targets(
        self,
        following: Sequence[Estimate],
        rewards: torch.Tensor,
        bootstrap: torch.Tensor,
        penalty: torch.Tensor | float,
    ) -> torch.Tensor:
        """Return target returns, of shape (n, 1)."""
        lowest = functools.reduce(torch.minimum, [mean for mean, _ in following])
        return rewards + bootstrap * (lowest - penalty)

    def means(self, targets: torch.Tensor) -> torch.Tensor:
        """Return the targets."""
        return targets

    def losses(self, estimate: Estimate, targets: torch.Tensor) -> torch.Tensor:
        """Return squared errors."""
        return mse_loss(estimate[0], targets, reduction="none")

    def figures(self) -> dict[str, torch.Tensor]:
        """Return nothing."""
        return {}


class CategoricalCritics:
    """Critics that estimate the distribution of the return (Bellemare et al. 2017, arXiv:1707.06887).

    Of the target critics, the one with the lowest mean counts for each transition, as in Seo et al. 2025
    (arXiv:2505.22642) with two.
    """

    def __init__(self, models: Iterable[Any], distribution: ValueDistribution) -> None:
        """Let the models of critics give the mean of their distribution, beside its logits.

        Args:
            models: The library's models, which give logits.
            distribution: Their distribution.
        """
        self._distribution = distribution
        self._figures: dict[str, torch.Tensor] = {}
        for model in models:
            model.act = _Mean(model, distribution)

    def targets(
        self,
        following: Sequence[Estimate],
        rewards: torch.Tensor,
        bootstrap: torch.Tensor,
        penalty: torch.Tensor | float,
    ) -> torch.Tensor:
        """Return target distributions, of shape (n, atoms)."""
        _, outputs = functools.reduce(_lower, following)
        probabilities = softmax(outputs[_LOGITS], dim=-1)
        returns = rewards + bootstrap * (self._distribution.returns - penalty)
        self._figures[_BEYOND] = self._distribution.share_beyond(probabilities, returns)
        return self._distribution.project(probabilities, returns)

    def means(self, targets: torch.Tensor) -> torch.Tensor:
        """Return the means of the target distributions."""
        return self._distribution.mean(targets)

    def losses(self, estimate: Estimate, targets: torch.Tensor) -> torch.Tensor:
        """Return cross-entropies."""
        return -(targets * log_softmax(estimate[1][_LOGITS], dim=-1)).sum(dim=-1, keepdim=True)

    def figures(self) -> dict[str, torch.Tensor]:
        """Return the share of the target returns beyond the range."""
        return self._figures


def _lower(one: Estimate, other: Estimate) -> Estimate:
    """Return the estimate with the lower mean, for each transition."""
    is_lower = one[0] < other[0]
    means = torch.where(is_lower, one[0], other[0])
    return means, {_LOGITS: torch.where(is_lower, one[1][_LOGITS], other[1][_LOGITS])}


class _Mean:
    """Replaces the function with which the library's agents ask a critic."""

    def __init__(self, model: Any, distribution: ValueDistribution) -> None:  # noqa: ANN401 - the library generates its class
        """Remember the model."""
        self._model, self._distribution = model, distribution

    def __call__(self, inputs: dict[str, Any], *, role: str = "") -> Estimate:
        """Return mean returns, and the logits of the distribution, in full precision."""
        logits, outputs = self._model.compute(inputs, role)
        logits = logits.float()
        return self._distribution.mean(softmax(logits, dim=-1)), {**outputs, _LOGITS: logits}
