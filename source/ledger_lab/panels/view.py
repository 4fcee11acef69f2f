"""The learner's view of an environment with held-out slots: it has only the training slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ledger_lab.panels.slots import HeldOutSlots, rows_of

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


class TrainingView:
    """An environment reduced to its training slots.

    The view has the class of the environment, so the wrapper of any library accepts it. All attributes that the view
    does not define are the environment's.
    """

    def __init__(self, env: ManagerBasedRLEnv, held_out: HeldOutSlots) -> None:
        """Wrap an environment.

        Args:
            env: The environment, as ``gym.make`` returns it.
            held_out: The slots to hide from the learner; the training slots come before them.
        """
        self._env, self._held_out = env, held_out
        self.num_envs = held_out.first
        self._training_rows = slice(0, held_out.first)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The environment's class; wrappers check it."""
        return type(self._env.unwrapped)

    @property
    def unwrapped(self) -> TrainingView:
        """The view itself, so that no code bypasses the view by accident."""
        return self

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps of the running episodes; shape (num_envs,)."""
        return self._env.unwrapped.episode_length_buf[self._training_rows]

    @episode_length_buf.setter
    def episode_length_buf(self, value: torch.Tensor) -> None:
        """Set the steps of the training slots; held-out slots keep theirs."""
        self._env.unwrapped.episode_length_buf[self._training_rows] = value

    @property
    def obs_buf(self) -> dict[str, torch.Tensor]:
        """Observation groups, each of shape (num_envs, ...)."""
        observations: dict[str, torch.Tensor] = rows_of(self._env.unwrapped.obs_buf, self._training_rows)
        return observations

    def reset(self, **kwargs: Any) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Reset all slots."""
        _, extras = self._env.reset(**kwargs)
        return self.obs_buf, self._cut(extras)

    def step(
        self, actions: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step all slots. In held-out slots, the policies that are being scored choose the actions.

        Args:
            actions: Actions of the training slots; shape (num_envs, actions).
        """
        observations, rewards, terminated, truncated, extras = self._held_out.step(actions)
        rows = self._training_rows
        return rows_of(observations, rows), rewards[rows], terminated[rows], truncated[rows], self._cut(extras)

    def _cut(self, extras: dict[str, Any]) -> dict[str, Any]:
        """Remove the rows of held-out slots from ``extras``."""
        total, rows = self._env.unwrapped.num_envs, self._training_rows
        return {
            key: value[rows] if isinstance(value, torch.Tensor) and value.shape[:1] == (total,) else value
            for key, value in extras.items()
        }

    def __getattr__(self, name: str) -> Any:
        """Return the environment's attribute."""
        return getattr(self._env.unwrapped, name)
