"""Velocity commands, with the error averaged over a cycle of the gait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from isaaclab.envs.mdp import UniformVelocityCommand, UniformVelocityCommandCfg
from isaaclab.utils import configclass

from ledger_lab.panels.transfers import zero_rows

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedEnv


class TrackedVelocityCommand(UniformVelocityCommand):
    """Isaac Lab's velocity command, which also tracks the error without the sway of the gait."""

    cfg: TrackedVelocityCommandCfg

    def __init__(self, cfg: TrackedVelocityCommandCfg, env: ManagerBasedEnv) -> None:
        """Start at rest.

        Args:
            cfg: The configuration.
            env: The environment.
        """
        super().__init__(cfg, env)
        self._mean_velocity = torch.zeros(self.num_envs, 3, device=self.device)
        self.commanded_m = torch.zeros(self.num_envs, device=self.device)
        """Commanded distance since the start of the episode [m]; shape (num_envs,)."""
        self._gain = min(1.0, env.step_dt / cfg.averaging_s)

    @property
    def mean_error(self) -> torch.Tensor:
        """Commanded minus averaged velocity of the base along x and y [m/s], and about z [rad/s]; (num_envs, 3)."""
        return self.vel_command_b - self._mean_velocity

    def reset(self, env_ids: Sequence[int] | None = None) -> dict[str, float]:
        """Reset the averages at the start of an episode."""
        zero_rows(env_ids, self._mean_velocity, self.commanded_m)
        metrics: dict[str, float] = super().reset(env_ids)
        return metrics

    def _update_metrics(self) -> None:
        """Update the average and the commanded distance by one step."""
        super()._update_metrics()
        data = self.robot.data
        velocity = torch.cat([data.root_lin_vel_b.torch[:, :2], data.root_ang_vel_b.torch[:, 2:]], dim=1)
        self.commanded_m += self.vel_command_b[:, :2].norm(dim=1) * self._env.step_dt
        self._mean_velocity += self._gain * (velocity - self._mean_velocity)


@configclass
class TrackedVelocityCommandCfg(UniformVelocityCommandCfg):
    """Configuration of :class:`TrackedVelocityCommand`."""

    class_type: type = TrackedVelocityCommand
    averaging_s: float = 0.5
    """Time constant of the exponential average [s], about one cycle of a trot."""
