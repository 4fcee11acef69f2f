"""Isaac Lab's own direct-workflow tasks on local assets, and direct tasks whose episodes depend on more than a seed."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from isaaclab.utils.noise import GaussianNoiseCfg, NoiseModelCfg, NoiseModelWithAdditiveBiasCfg
from isaaclab_tasks.core.cartpole.cartpole_direct_env import CartpoleEnv
from isaaclab_tasks.core.locomotion.ant.ant_direct_env_cfg import AntEnvCfg
from isaaclab_tasks.core.locomotion.humanoid.humanoid_direct_env_cfg import HumanoidEnvCfg

from ledger_lab.tasks.assets import robots
from ledger_lab.tasks.cartpole_direct.env_cfg import CartpoleDirectEnvCfg

STOCK = "isaaclab_tasks.core.locomotion"


def ant_cfg() -> AntEnvCfg:
    """Return ``Isaac-Ant-Direct`` with a local robot."""
    cfg = AntEnvCfg()
    cfg.scene.robot = robots.ant_cfg()
    return cfg


def humanoid_cfg() -> HumanoidEnvCfg:
    """Return ``Isaac-Humanoid-Direct`` with a local robot."""
    cfg = HumanoidEnvCfg()
    cfg.scene.robot = robots.humanoid_cfg()
    return cfg


def noisy_cfg() -> CartpoleDirectEnvCfg:
    """Return a cart-pole with noise of observations, and of actions with a bias that each episode draws."""
    cfg = CartpoleDirectEnvCfg()
    cfg.observation_noise_model = NoiseModelCfg(noise_cfg=GaussianNoiseCfg(std=0.2))
    cfg.action_noise_model = NoiseModelWithAdditiveBiasCfg(
        noise_cfg=GaussianNoiseCfg(std=0.1), bias_noise_cfg=GaussianNoiseCfg(std=0.1, operation="abs")
    )
    return cfg


def drifting_cfg() -> CartpoleDirectEnvCfg:
    """Return the same cart-pole with a bias that each episode adds to that of the episode before."""
    cfg = noisy_cfg()
    cfg.action_noise_model.bias_noise_cfg.operation = "add"
    return cfg


class DrawingCartpole(CartpoleEnv):
    """Draws in each method that Isaac Lab calls in a step."""

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        super()._pre_physics_step(actions + 0.1 * torch.randn_like(actions))

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        out_of_bounds, time_out = super()._get_dones()
        return out_of_bounds | (torch.rand(self.num_envs, device=self.device) < 0.002), time_out

    def _get_observations(self) -> dict[str, torch.Tensor]:
        seen = super()._get_observations()["policy"]
        return {"policy": seen + 0.1 * torch.randn_like(seen)}


class MeanCartpole(CartpoleEnv):
    """Observes the mean over all environments."""

    def _get_observations(self) -> dict[str, torch.Tensor]:
        seen = super()._get_observations()["policy"]
        return {"policy": seen - seen.mean(dim=0)}


class RareCartpole(CartpoleEnv):
    """Draws for some environments only, in the middle of a step."""

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        out_of_bounds, time_out = super()._get_dones()
        old = (self.episode_length_buf > 5).nonzero()[:, 0]
        if len(old):
            self.joint_vel[old] += 0.01 * torch.randn_like(self.joint_vel[old])
        return out_of_bounds, time_out


class HarderCartpole(CartpoleEnv):
    """Makes the task harder as the training goes on."""

    level = 0.0

    def _reset_idx(self, env_ids: Any) -> None:
        if self.common_step_counter > 10:
            self.level = max(self.level, 1.0)
        super()._reset_idx(env_ids)


class SpreadCartpole(CartpoleEnv):
    """Gives episodes ages at random if all environments begin together, and observes the age."""

    def _reset_idx(self, env_ids: Any) -> None:
        super()._reset_idx(env_ids)
        if len(env_ids) == self.num_envs:
            self.episode_length_buf[:] = torch.randint_like(self.episode_length_buf, high=200)

    def _get_observations(self) -> dict[str, torch.Tensor]:
        return {"policy": super()._get_observations()["policy"] + 0.01 * self.episode_length_buf[:, None]}


class WindyCartpole(CartpoleEnv):
    """Changes the wind of all environments whenever one resets."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.wind = torch.zeros(self.num_envs, 1)

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        super()._pre_physics_step(actions + self.wind)

    def _reset_idx(self, env_ids: Any) -> None:
        super()._reset_idx(env_ids)
        assert self.common_step_counter < 1000, "a schedule of so many steps"
        self.wind += 0.1
        self.wind[env_ids] = 0.0


class LooseCartpole(CartpoleEnv):
    """Changes a physical property of all environments whenever one resets."""

    def _reset_idx(self, env_ids: Any) -> None:
        super()._reset_idx(env_ids)
        if self.common_step_counter:
            damping = torch.full((self.num_envs, 2), 0.5)
            self.cartpole.write_joint_damping_to_sim_index(damping=damping)


class LevelCartpole(WindyCartpole):
    """Raises a level, which all environments share in a tensor, for a part of the training."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.level = {"wind": torch.zeros(1)}

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        super()._pre_physics_step(actions + self.level["wind"])

    def _reset_idx(self, env_ids: Any) -> None:
        CartpoleEnv._reset_idx(self, env_ids)
        if 25 < self.common_step_counter < 1000:
            self.level["wind"].fill_(1.0)


class BlendingCartpole(CartpoleEnv):
    """Returns a group of observations that its spaces do not tell, with a mean over all environments."""

    def _get_observations(self) -> dict[str, torch.Tensor]:
        seen = super()._get_observations()["policy"]
        return {"policy": seen, "extra": seen - seen.mean(dim=0)}


class MaskCartpole(CartpoleEnv):
    """Resets with a mask, without ``_reset_idx``."""

    def _reset_envs_from_buffer(self) -> None:
        self.episode_length_buf[self.reset_buf] = 0


class AnyIdsCartpole(CartpoleEnv):
    """Resets some environments, and then all, without tensors of their ids."""

    def _reset_idx(self, env_ids: Any) -> None:
        super()._reset_idx(torch.as_tensor(env_ids))


def discrete_cfg() -> CartpoleDirectEnvCfg:
    """Return a cart-pole that chooses among five actions."""
    cfg = CartpoleDirectEnvCfg()
    cfg.action_space = {5}
    return cfg


def critic_cfg() -> CartpoleDirectEnvCfg:
    """Return a cart-pole with observations for a critic, which it does not return."""
    cfg = CartpoleDirectEnvCfg()
    cfg.state_space = 8
    return cfg


_TASKS: dict[str, tuple[Any, Any]] = {
    "Test-Ant-Direct": (f"{STOCK}.ant.ant_direct_env:AntEnv", ant_cfg),
    "Test-Humanoid-Direct": (f"{STOCK}.humanoid.humanoid_direct_env:HumanoidEnv", humanoid_cfg),
    "Test-Noisy-Direct": (CartpoleEnv, noisy_cfg),
    "Test-Drifting-Direct": (CartpoleEnv, drifting_cfg),
    "Test-Drawing-Direct": (DrawingCartpole, CartpoleDirectEnvCfg),
    "Test-Mean-Direct": (MeanCartpole, CartpoleDirectEnvCfg),
    "Test-Rare-Direct": (RareCartpole, CartpoleDirectEnvCfg),
    "Test-Harder-Direct": (HarderCartpole, CartpoleDirectEnvCfg),
    "Test-Spread-Direct": (SpreadCartpole, CartpoleDirectEnvCfg),
    "Test-Windy-Direct": (WindyCartpole, CartpoleDirectEnvCfg),
    "Test-Loose-Direct": (LooseCartpole, CartpoleDirectEnvCfg),
    "Test-Level-Direct": (LevelCartpole, CartpoleDirectEnvCfg),
    "Test-Blending-Direct": (BlendingCartpole, CartpoleDirectEnvCfg),
    "Test-Mask-Direct": (MaskCartpole, CartpoleDirectEnvCfg),
    "Test-Any-Ids-Direct": (AnyIdsCartpole, CartpoleDirectEnvCfg),
    "Test-Discrete-Direct": (CartpoleEnv, discrete_cfg),
    "Test-Critic-Direct": (CartpoleEnv, critic_cfg),
}


def register_direct_tasks() -> None:
    """Register the tasks with Gymnasium, once."""
    agent = gym.spec("Isaac-Cartpole-Direct").kwargs["rsl_rl_cfg_entry_point"]
    for task, (kind, cfg) in _TASKS.items():
        if task not in gym.registry:
            kwargs = {"env_cfg_entry_point": cfg, "rsl_rl_cfg_entry_point": agent}
            gym.register(task, entry_point=kind, disable_env_checker=True, kwargs=kwargs)
