"""The commanded velocity, and how well a robot follows it on average over a step of its gait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from isaaclab.envs.mdp import UniformVelocityCommand, UniformVelocityCommandCfg
from isaaclab.utils import configclass

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedEnv


class TrackedVelocityCommand(UniformVelocityCommand):
    """Isaac Lab's velocity command that also follows the error, with the sway of the gait averaged out."""

    cfg: TrackedVelocityCommandCfg

    def __init__(self, cfg: TrackedVelocityCommandCfg, env: ManagerBasedEnv) -> None:
        """Begin at rest.

        Args:
            cfg: The configuration.
            env: The environment.
        """
        super().__init__(cfg, env)
        self._mean_velocity = torch.zeros(self.num_envs, 3, device=self.device)
        self.commanded_m = torch.zeros(self.num_envs, device=self.device)
        """How far robots were told to walk since their episodes began [m]; shape (num_envs,)."""
        self._gain = min(1.0, env.step_dt / cfg.averaging_s)

    @property
    def mean_error(self) -> torch.Tensor:
        """Commanded less averaged velocity along x and y [m/s] and about z [rad/s] of the base; (num_envs, 3)."""
        return self.vel_command_b - self._mean_velocity

    def reset(self, env_ids: Sequence[int] | None = None) -> dict[str, float]:
        """Begin an episode: what was averaged before counts no more."""
        begins = slice(None) if env_ids is None else env_ids
        self._mean_velocity[begins] = 0.0
        self.commanded_m[begins] = 0.0
        metrics: dict[str, float] = super().reset(env_ids)
        return metrics

    def _update_metrics(self) -> None:
        """Average over another step, and add it to the way."""
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
    """Time constant of the exponential average [s]: about a cycle of a trot."""
