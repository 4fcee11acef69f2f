"""An environment that any library's wrapper takes for one of Isaac Lab's, without a simulator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch


class ToyEnv:
    """Points on a line that actions push; they are rewarded for staying near the origin, and fall off beyond ±2.

    Observations are the position and a constant; episodes take at most 16 steps.
    """

    device = "cpu"
    max_episode_length = 16

    def __init__(self, num_envs: int = 8) -> None:
        """Put all points at the origin."""
        self.num_envs = num_envs
        observed = gym.spaces.Box(-np.inf, np.inf, (2,))
        self.single_observation_space = gym.spaces.Dict({"policy": observed})
        self.single_action_space = gym.spaces.Box(-np.inf, np.inf, (1,))
        self.cfg = SimpleNamespace(is_finite_horizon=False, decimation=1)
        self.action_manager = SimpleNamespace(total_action_dim=1)
        self.sim = SimpleNamespace(step=lambda **_: None)
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.position = torch.zeros(num_envs)
        self.render_mode = None
        self.actions: list[torch.Tensor] = []
        """What was done, step by step."""
        self.observed: list[torch.Tensor] = []
        """What was seen before."""
        self.rewarded: list[torch.Tensor] = []
        self.failed: list[torch.Tensor] = []

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What the libraries' wrappers ask for."""
        from isaaclab.envs import ManagerBasedRLEnv

        return ManagerBasedRLEnv

    @property
    def unwrapped(self) -> ToyEnv:
        """The environment itself."""
        return self

    @property
    def obs_buf(self) -> dict[str, torch.Tensor]:
        """Observation groups."""
        return {"policy": torch.stack([self.position, torch.ones(self.num_envs)], dim=1)}

    def reset(self, **_: Any) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Put all points somewhere."""
        self._reset(torch.ones(self.num_envs, dtype=torch.bool))
        return self.obs_buf, {}

    def step(self, actions: torch.Tensor) -> tuple[Any, ...]:
        """Push the points."""
        self.actions.append(actions.clone())
        self.observed.append(self.obs_buf["policy"])
        self.sim.step()
        self.position = self.position + 0.1 * actions.squeeze(1)
        self.episode_length_buf += 1
        rewards = 1.0 - self.position.abs()
        terminated = self.position.abs() > 2.0
        truncated = self.episode_length_buf >= self.max_episode_length
        self.rewarded.append(rewards)
        self.failed.append(terminated)
        self._reset(terminated | truncated)
        return self.obs_buf, rewards, terminated, truncated, {"log": {"Metrics/position": self.position.mean()}}

    def _reset(self, which: torch.Tensor) -> None:
        """Put points somewhere."""
        self.position = torch.where(which, torch.rand(self.num_envs) - 0.5, self.position)
        self.episode_length_buf = torch.where(which, 0, self.episode_length_buf)


class Privileged(ToyEnv):
    """The toy, which has observations for the value function alone."""

    def __init__(self) -> None:
        """Put all points at the origin."""
        super().__init__()
        box = gym.spaces.Box(-np.inf, np.inf, (1,))
        self.single_observation_space = gym.spaces.Dict({**self.single_observation_space.spaces, "critic": box})

    @property
    def obs_buf(self) -> dict[str, torch.Tensor]:
        """Observation groups."""
        return {**super().obs_buf, "critic": self.position.unsqueeze(1)}


class ImageEnv(ToyEnv):
    """The toy, whose policy sees an image of bytes, and whose critics also see the position.

    As in Isaac Lab, spaces are unbounded, and of floats.
    """

    image = (3, 16, 16)
    """Channels, height and width."""

    def __init__(self) -> None:
        """Put all points at the origin."""
        super().__init__()
        image, position = (gym.spaces.Box(-np.inf, np.inf, shape) for shape in (self.image, (1,)))
        self.single_observation_space = gym.spaces.Dict({"policy": image, "critic": position})

    @property
    def obs_buf(self) -> dict[str, Any]:
        """Observation groups."""
        return {"policy": self._image(), "critic": self.position.unsqueeze(1)}

    def _image(self) -> torch.Tensor:
        """Return images of the points, with a blot around each in channels of different sharpness."""
        channels, height, width = self.image
        places = torch.linspace(-2.0, 2.0, width) - self.position.view(-1, 1, 1, 1)
        sharpness = torch.arange(1.0, channels + 1.0).view(-1, 1, 1)
        blots = 255.0 * torch.exp(-sharpness * places.square())
        return blots.expand(-1, -1, height, -1).to(torch.uint8).contiguous()


class ImageAndPlaceEnv(ImageEnv):
    """The toy, whose policy sees terms that are not concatenated: an image of bytes, and numbers around it."""

    def __init__(self) -> None:
        """Put all points at the origin."""
        super().__init__()
        kinds = {"age": (2,), "image": self.image, "place": (1,)}
        terms = {name: gym.spaces.Box(-np.inf, np.inf, shape) for name, shape in kinds.items()}
        self.single_observation_space = gym.spaces.Dict({"policy": gym.spaces.Dict(terms)})

    @property
    def obs_buf(self) -> dict[str, Any]:
        """Observation groups."""
        ages = torch.stack([self.episode_length_buf, 0.5 * self.episode_length_buf], dim=1).float()
        return {"policy": {"place": self.position.unsqueeze(1), "image": self._image(), "age": ages}}
