"""The replay memory behind the interface of rl_games' replay buffers."""

from __future__ import annotations

import torch

from ledger_lab.off_policy.replay_memory import Column, ReplayMemory

_COLUMNS = ("observations", "actions", "rewards", "terminated")
"""What a transition holds besides its next observation, in the library's order."""


class RlGamesMemory:
    """What rl_games' SAC calls of a replay buffer. The library's own buffer stores every observation twice."""

    def __init__(self, steps: int, num_envs: int, observations: int, actions: int, device: torch.device) -> None:
        """Allocate the memory.

        Args:
            steps: Steps of each environment.
            num_envs: Number of environments.
            observations: Numbers in an observation.
            actions: Numbers in an action.
            device: Where it is held.
        """
        columns = (Column(observations, observed=True), Column(actions), Column(1), Column(1, torch.bool))
        self.replay = ReplayMemory(steps, num_envs, dict(zip(_COLUMNS, columns, strict=True)), device)

    def add(
        self,
        observations: torch.Tensor,
        actions: torch.Tensor,
        rewards: torch.Tensor,
        next_observations: torch.Tensor,
        terminated: torch.Tensor,
    ) -> None:
        """Add a step of all environments, of shape (num_envs, size) each."""
        values = dict(zip(_COLUMNS, (observations, actions, rewards, terminated), strict=True))
        self.replay.add(values, {"observations": next_observations})

    def sample(self, batch_size: int) -> tuple[torch.Tensor, ...]:
        """Draw transitions uniformly, with replacement.

        Args:
            batch_size: Number of transitions.

        Returns:
            Observations, actions, rewards, next observations, and whether the episode was terminated, of shape
            (batch_size, size) each.
        """
        index, after = self.replay.draw(batch_size)
        observations, actions, rewards, terminated = (self.replay.read(name, index) for name in _COLUMNS)
        return observations, actions, rewards, self.replay.read("observations", after), terminated
