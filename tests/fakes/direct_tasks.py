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


_TASKS: dict[str, tuple[Any, Any]] = {
    "Test-Ant-Direct": (f"{STOCK}.ant.ant_direct_env:AntEnv", ant_cfg),
    "Test-Humanoid-Direct": (f"{STOCK}.humanoid.humanoid_direct_env:HumanoidEnv", humanoid_cfg),
    "Test-Noisy-Direct": (CartpoleEnv, noisy_cfg),
    "Test-Drifting-Direct": (CartpoleEnv, drifting_cfg),
    "Test-Drawing-Direct": (DrawingCartpole, CartpoleDirectEnvCfg),
    "Test-Mean-Direct": (MeanCartpole, CartpoleDirectEnvCfg),
    "Test-Rare-Direct": (RareCartpole, CartpoleDirectEnvCfg),
    "Test-Harder-Direct": (HarderCartpole, CartpoleDirectEnvCfg),
}


def register_direct_tasks() -> None:
    """Register the tasks with Gymnasium, once."""
    agent = gym.spec("Isaac-Cartpole-Direct").kwargs["rsl_rl_cfg_entry_point"]
    for task, (kind, cfg) in _TASKS.items():
        if task not in gym.registry:
            kwargs = {"env_cfg_entry_point": cfg, "rsl_rl_cfg_entry_point": agent}
            gym.register(task, entry_point=kind, disable_env_checker=True, kwargs=kwargs)
