"""What a learner sees of an environment that has held-out slots: the training slots, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ledger_lab.panels.slots import HeldOutSlots, rows_of

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


class TrainingView:
    """An environment cut down to its first slots.

    It passes for the environment itself, so that any library's own wrapper takes it. What it doesn't cut is the
    environment's.
    """

    def __init__(self, env: ManagerBasedRLEnv, held_out: HeldOutSlots) -> None:
        """Look at an environment.

        Args:
            env: The environment, as ``gym.make`` returns it.
            held_out: The slots that the learner must not see; all others come before them.
        """
        self._env, self._held_out = env, held_out
        self.num_envs = held_out.first
        self._seen = slice(0, held_out.first)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The environment's class: libraries ask for it."""
        return type(self._env.unwrapped)

    @property
    def unwrapped(self) -> TrainingView:
        """The view itself, so that code doesn't bypass it by accident."""
        return self

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps of the running episodes; shape (num_envs,)."""
        return self._env.unwrapped.episode_length_buf[self._seen]

    @episode_length_buf.setter
    def episode_length_buf(self, value: torch.Tensor) -> None:
        """Set the steps of the training slots' episodes alone."""
        self._env.unwrapped.episode_length_buf[self._seen] = value

    @property
    def obs_buf(self) -> dict[str, torch.Tensor]:
        """Observation groups, each of shape (num_envs, ...)."""
        observations: dict[str, torch.Tensor] = rows_of(self._env.unwrapped.obs_buf, self._seen)
        return observations

    def reset(self, **kwargs: Any) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:  # noqa: ANN401
        """Reset all slots."""
        _, extras = self._env.reset(**kwargs)
        return self.obs_buf, self._cut(extras)

    def step(
        self, actions: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step all slots, the held-out ones by their own policy.

        Args:
            actions: Of the training slots; shape (num_envs, actions).
        """
        observations, rewards, terminated, truncated, extras = self._held_out.step(actions)
        seen = self._seen
        return rows_of(observations, seen), rewards[seen], terminated[seen], truncated[seen], self._cut(extras)

    def _cut(self, extras: dict[str, Any]) -> dict[str, Any]:
        """Return what the environment tells beside its observations, without the held-out slots' rows."""
        total = self._env.unwrapped.num_envs
        return {
            key: value[self._seen] if isinstance(value, torch.Tensor) and value.shape[:1] == (total,) else value
            for key, value in extras.items()
        }

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the environment has
        """Return what the environment has."""
        return getattr(self._env.unwrapped, name)
