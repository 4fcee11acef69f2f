"""Distributions of returns over a fixed range, as categorical critics learn them."""

from __future__ import annotations

import torch


class ValueDistribution:
    """Probabilities of returns that are spread evenly over a range (Bellemare et al. 2017, arXiv:1707.06887)."""

    def __init__(self, low: float, high: float, atoms: int, device: torch.device) -> None:
        """Spread the returns.

        Args:
            low: Smallest return.
            high: Largest return.
            atoms: Number of returns, at least 2.
            device: Where it is computed.
        """
        self._low, self._high, self._gap = low, high, (high - low) / (atoms - 1)
        self.returns = torch.linspace(low, high, atoms, device=device)
        """The returns, of shape (atoms,)."""

    def mean(self, probabilities: torch.Tensor) -> torch.Tensor:
        """Return the mean return, of shape (n, 1).

        Args:
            probabilities: Shape (n, atoms).
        """
        return (probabilities * self.returns).sum(dim=-1, keepdim=True)

    def project(self, probabilities: torch.Tensor, returns: torch.Tensor) -> torch.Tensor:
        """Return a distribution of other returns as one over :attr:`returns`.

        The probability of a return between two neighbours is divided between them so that its mean stays. A return
        outside the range counts as the nearer end.

        Args:
            probabilities: Shape (n, atoms).
            returns: The return of each probability, of the same shape.
        """
        place = (returns.clamp(self._low, self._high) - self._low) / self._gap
        # NaN is no index: it stays in the share, so that the loss becomes NaN, and the run ends as non_finite
        lower = place.nan_to_num(0.0).floor().clamp_(max=len(self.returns) - 2).long()
        share = (place - lower).clamp_(max=1.0)  # rounding could place the largest return beyond the last atom
        projected = torch.zeros_like(probabilities)
        projected.scatter_add_(-1, lower, probabilities * (1.0 - share))
        projected.scatter_add_(-1, lower + 1, probabilities * share)
        return projected

    def share_beyond(self, probabilities: torch.Tensor, returns: torch.Tensor) -> torch.Tensor:
        """Return the mean probability of returns outside the range, which :meth:`project` moves to its ends.

        Args:
            probabilities: Shape (n, atoms).
            returns: The return of each probability, of the same shape.
        """
        is_beyond = (returns < self._low) | (returns > self._high)
        return (probabilities * is_beyond).sum(dim=-1).mean()
