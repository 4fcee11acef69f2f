"""Exploration noise of a size that differs between environments."""

from __future__ import annotations

import torch

_GOLDEN = 0.6180339887498949
"""The golden ratio, without its whole part. Its multiples, without their whole parts, fill 0 to 1 evenly from the first
few on."""


class ExplorationNoise:
    """Gaussian noise whose standard deviation each environment keeps, spread evenly over a range.

    It is the mixed exploration of Li et al. 2023 (arXiv:2307.12983), with another order: there, the standard deviation
    rises with the number of the environment. Isaac Lab assigns kinds of terrain in this order, so here, environments
    that follow one another have values from all over the range.
    """

    def __init__(self, *, low: float, high: float, num_envs: int, device: torch.device, first: int = 0) -> None:
        """Spread the range over the environments.

        Args:
            low: Smallest standard deviation.
            high: Largest standard deviation.
            num_envs: Number of environments.
            device: Where noise is drawn.
            first: Number of the first of them, counted over the environments of all processes.
        """
        self.stream: torch.Generator | None = None
        """Random stream; ``None`` for that of the process."""
        shares = [index * _GOLDEN % 1.0 for index in range(first, first + num_envs)]
        self.std = torch.tensor([[low + (high - low) * share] for share in shares], device=device)
        """Standard deviation in each environment, of shape (num_envs, 1)."""

    def sample(self, size: torch.Size | list[int]) -> torch.Tensor:
        """Draw noise.

        Args:
            size: Numbers of environments and of actions.
        """
        return self.std * torch.randn(size, generator=self.stream, device=self.std.device)
