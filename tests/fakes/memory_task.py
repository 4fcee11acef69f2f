"""A task that only a policy with a memory solves: where the cart has to go is shown in the first step alone.

The cart does not move before the goal has disappeared, so the goal leaves no trace in what is observed later.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import isaaclab.envs.mdp as mdp
import torch
from isaaclab.envs import ManagerBasedRLEnv
from isaaclab.managers import ObservationTermCfg, RewardTermCfg
from isaaclab.utils import configclass
from isaaclab_rl.rsl_rl import RslRlMLPModelCfg, RslRlOnPolicyRunnerCfg, RslRlPpoAlgorithmCfg, RslRlRNNModelCfg
from isaaclab_tasks.core.cartpole.cartpole_manager_env_cfg import RewardsCfg

from ledger_lab.tasks.cartpole.env_cfg import CartpoleEnvCfg
from tests.fakes.leaky_cartpole import RandomCommand, RandomCommandCfg

TASK = "Test-Memory"
HELD_STEPS = 2


class Side(RandomCommand):
    """A side of the rail, -1 or 1, that each episode draws."""

    def _resample_command(self, env_ids: Any) -> None:
        super()._resample_command(env_ids)
        self._value[env_ids] = self._value[env_ids].sign()


class LateForce(mdp.JointEffortAction):
    """A motor that starts late."""

    def process_actions(self, actions: torch.Tensor) -> None:
        super().process_actions(actions)
        self._processed_actions *= (self._env.episode_length_buf >= HELD_STEPS).unsqueeze(1)


def side(env: ManagerBasedRLEnv) -> torch.Tensor:
    """Return the side in the first step of an episode, and zero later."""
    shown: torch.Tensor = env.command_manager.get_command("side") * (env.episode_length_buf == 0).unsqueeze(1)
    return 5.0 * shown


def progress(env: ManagerBasedRLEnv) -> torch.Tensor:
    """Return how far the cart is on its side, at most 1 m."""
    position = env.scene["robot"].data.joint_pos.torch[:, 0]
    return (position * env.command_manager.get_command("side")[:, 0]).clamp(-1.0, 1.0)


def arrived(env: ManagerBasedRLEnv, least_m: float) -> torch.Tensor:
    """Tell in which environments the cart is on its side."""
    return progress(env) >= least_m


@configclass
class CommandsCfg:
    side = RandomCommandCfg(class_type=Side, resampling_time_range=(100.0, 100.0))


@configclass
class MemoryRewardsCfg(RewardsCfg):
    def __post_init__(self) -> None:
        for name in vars(self):
            setattr(self, name, None)
        self.progress = RewardTermCfg(func=progress, weight=10.0)


def memory_cfg() -> CartpoleEnvCfg:
    """Return the environment: episodes of 0.3 s."""
    cfg = CartpoleEnvCfg()
    cfg.commands = CommandsCfg()
    cfg.rewards = MemoryRewardsCfg()
    cfg.observations.policy.side = ObservationTermCfg(func=side)
    cfg.actions.cart_force.class_type = LateForce
    cfg.actions.cart_force.scale = 20.0
    cfg.events.reset_cart = cfg.events.reset_pole = None
    cfg.episode_length_s = 0.3
    return cfg


def agent_cfg() -> RslRlOnPolicyRunnerCfg:
    """Return RSL-RL's PPO with an LSTM."""
    network = {"hidden_dims": [32], "activation": "elu", "rnn_type": "lstm", "rnn_hidden_dim": 16, "rnn_num_layers": 1}
    return RslRlOnPolicyRunnerCfg(
        num_steps_per_env=18,
        max_iterations=60,
        save_interval=50,
        experiment_name="memory",
        actor=RslRlRNNModelCfg(distribution_cfg=RslRlMLPModelCfg.GaussianDistributionCfg(init_std=1.0), **network),
        critic=RslRlRNNModelCfg(**network),
        algorithm=RslRlPpoAlgorithmCfg(
            value_loss_coef=1.0,
            use_clipped_value_loss=True,
            clip_param=0.2,
            entropy_coef=0.0,
            num_learning_epochs=5,
            num_mini_batches=4,
            learning_rate=3.0e-3,
            schedule="adaptive",
            gamma=0.99,
            lam=0.95,
            desired_kl=0.02,
            max_grad_norm=1.0,
        ),
    )


if TASK not in gym.registry:
    gym.register(
        TASK,
        entry_point="isaaclab.envs:ManagerBasedRLEnv",
        disable_env_checker=True,
        kwargs={
            "env_cfg_entry_point": memory_cfg,
            "rsl_rl_cfg_entry_point": agent_cfg,
        },
    )


PANEL = f"""
task = "{TASK}"
description = "Go to the side that is shown in the first step."
episode_length_s = 0.3
target_success = 0.75

[seeds]
first = 0
count = 64

[success]
function = "tests.fakes.memory_task:arrived"
hold_s = 0.05

[success.params]
least_m = 0.05
"""


def installed(folder: Path) -> Path:
    """Write what makes an installed package of this module, whose entry point programs find; return the folder."""
    about = folder / "memory_task-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: memory-task\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[isaaclab.tasks]\nmemory_task = {__name__}\n")
    return folder
