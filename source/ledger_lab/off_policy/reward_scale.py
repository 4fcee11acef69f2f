"""A running scale of rewards, so that returns keep about the same size in every task and throughout a training."""

from __future__ import annotations

import torch

from ledger_lab.training.runners.collectives import largest_of_all_processes, merged_moments

_LARGEST = 10.0
"""Largest return after scaling, of the returns so far; that of Seo et al. 2025 (arXiv:2505.22642)."""


class RewardScale(torch.nn.Module):
    """Standard deviation of the discounted returns so far, or more if one of them is far larger.

    It follows Lee et al. 2025 (arXiv:2502.15280): each environment sums up its past rewards with discounts. The scale
    is the standard deviation of these sums over time and environments. If the largest sum would still be more than ten
    times the scale, the scale is a tenth of it. The rewards of all processes count, so all have the same scale.
    """

    count: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor
    largest: torch.Tensor

    def __init__(self, num_envs: int, discount: float, device: torch.device) -> None:
        """Begin without rewards.

        Args:
            num_envs: Number of environments of this process.
            discount: Discount factor per step.
            device: Where it is computed.
        """
        super().__init__()
        self._discount = discount
        for name in ("count", "mean", "variance", "largest"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64, device=device))
        self.returns = torch.zeros(num_envs, 1, dtype=torch.float64, device=device)
        """Discounted sum of the rewards of each environment's running episode, of shape (num_envs, 1)."""

    def update(self, rewards: torch.Tensor, ended: torch.Tensor) -> None:
        """Take in the rewards of a step. All processes of a training call this.

        Args:
            rewards: Shape (num_envs, 1).
            ended: Whether the episodes ended with the step, of the same shape.
        """
        self.returns = self._discount * self.returns + rewards
        variance, mean = torch.var_mean(self.returns, correction=0)
        mean, variance, added = merged_moments(mean, variance, self.returns.numel(), correction=0)
        before = self.count
        self.count = before + added
        change = mean - self.mean
        self.variance = (
            self.variance * before + variance * added + change.square() * before * added / self.count
        ) / self.count
        self.mean = self.mean + change * added / self.count
        self.largest = torch.maximum(self.largest, largest_of_all_processes(self.returns.abs().amax()))
        self.returns = self.returns.masked_fill(ended, 0.0)

    def forward(self, rewards: torch.Tensor) -> torch.Tensor:
        """Return scaled rewards.

        Args:
            rewards: Any shape; also sums of rewards.
        """
        scale = torch.maximum(self.variance.sqrt(), self.largest / _LARGEST)
        return rewards / scale.clamp_min(1e-8).float()
