"""Reward for keeping to the command as the panel asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from isaaclab.managers import ManagerTermBase, RewardTermCfg

from ledger_lab.panels.transfers import zero_rows

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


class Keeping(ManagerTermBase):
    """Rewards robots whose velocity, averaged over a cycle of the gait, is close to the command."""

    def __init__(self, cfg: RewardTermCfg, env: ManagerBasedRLEnv) -> None:
        """Start both times at zero.

        Args:
            cfg: The configuration.
            env: The environment.
        """
        super().__init__(cfg, env)
        self.lived_s = torch.zeros(env.num_envs, device=env.device)
        """Time since the start of the episode [s]; shape (num_envs,). RSL-RL draws the length of the first episodes at
        random, so the environment's own count can be larger."""
        self.kept_s = torch.zeros(env.num_envs, device=env.device)
        """Time since the velocity was last too far from the command, or since the start of the episode [s]; shape
        (num_envs,)."""

    def reset(self, env_ids: Sequence[int] | None = None) -> None:
        """Reset both times at the start of an episode."""
        zero_rows(env_ids, self.lived_s, self.kept_s)

    def __call__(
        self, env: ManagerBasedRLEnv, command_name: str, linear_m_s: float, angular_rad_s: float
    ) -> torch.Tensor:
        """Return 1 for each robot that keeps to its command, and 0 for the others.

        Args:
            env: The environment.
            command_name: The commanded velocity, a
                :class:`~ledger_lab.tasks.velocity.commands.TrackedVelocityCommand`.
            linear_m_s: Largest error of the averaged horizontal velocity [m/s].
            angular_rad_s: Largest error of the averaged turning rate [rad/s].

        Returns:
            Tensor of shape (num_envs,).
        """
        error = env.command_manager.get_term(command_name).mean_error
        keeps = ((error[:, :2].norm(dim=1) <= linear_m_s) & (error[:, 2].abs() <= angular_rad_s)).float()
        self.lived_s += env.step_dt
        self.kept_s += env.step_dt
        self.kept_s *= keeps
        return keeps
