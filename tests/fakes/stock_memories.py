"""The libraries' own replay memories, behind the arguments of LedgerLab's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from rl_games.common.experience import VectorizedReplayBuffer
from skrl.memories.torch import RandomMemory

_UNMEASURED = SimpleNamespace(fill=0.0, mean_age=lambda: 0.0)


class SkrlStock(RandomMemory):
    """The library's own memory, which stores each observation twice, and as floats."""

    replay = _UNMEASURED
    observation_bytes = 0

    def __init__(self, *, on_host: bool, columns: Any, **library: Any) -> None:  # noqa: ANN401 - not needed
        """Build it."""
        assert not on_host
        super().__init__(**library)


class RlGamesStock(VectorizedReplayBuffer):
    """The library's own memory, which stores each observation twice."""

    replay = _UNMEASURED

    def __init__(self, steps: int, num_envs: int, observations: int, actions: int, device: torch.device) -> None:
        """Build it."""
        super().__init__((observations,), (actions,), steps * num_envs, device)
