"""Every field of a recipe reaches each library's learner; a misspelt setting would be ignored silently."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ledger_lab.ledger.libraries import dialect_of
from ledger_lab.ledger.meters.phases import PhaseClock
from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from tests.fakes.observers import Heard
from tests.training.runners.test_adapters import Training, configured, every_library
from tests.training.runners.test_skrl_adapter import Watched


def _read_rsl_rl(trainer: Any) -> dict[str, object]:
    from tensordict import TensorDict

    alg = trainer._runner.alg
    alg.actor(TensorDict(trainer._wrapper.unwrapped.obs_buf, batch_size=[8]), stochastic_output=True)
    return {
        "horizon": alg.storage.num_transitions_per_env,
        "epochs": alg.num_learning_epochs,
        "minibatches": alg.num_mini_batches,
        "learning_rate": alg.optimizer.param_groups[0]["lr"],
        "kl_target": alg.desired_kl,
        "clip": alg.clip_param,
        "value_clip": alg.use_clipped_value_loss,
        "value_coef": alg.value_loss_coef,
        "entropy_coef": alg.entropy_coef,
        "max_grad_norm": alg.max_grad_norm,
        "discount": alg.gamma,
        "gae_lambda": alg.lam,
        "initial_noise_std": float(alg.actor.output_std.mean()),
        "observation_normalization": alg.actor.obs_normalization and alg.critic.obs_normalization,
        "mixed_precision": alg.use_mixed_precision,
    }


def _read_rl_games(trainer: Any) -> dict[str, object]:
    algo = trainer._algo
    return {
        "horizon": algo.horizon_length,
        "epochs": algo.mini_epochs_num,
        "minibatches": algo.num_minibatches,
        "learning_rate": algo.optimizer.param_groups[0]["lr"],
        "kl_target": algo.scheduler.kl_threshold,
        "clip": algo.e_clip,
        "value_clip": algo.clip_value,
        "value_coef": 0.5 * algo.critic_coef,
        "entropy_coef": algo.entropy_coef,
        "max_grad_norm": algo.truncate_grads and algo.grad_norm,
        "discount": algo.gamma,
        "gae_lambda": algo.tau,
        "initial_noise_std": float(algo.get_action_values({"obs": torch.zeros(8, 2)})["sigmas"].mean()),
        "observation_normalization": algo.model.normalize_input,
        "value_normalization": algo.model.normalize_value,
        "timeout_bootstrap": algo.value_bootstrap,
        "reward_scale": float(algo.rewards_shaper(torch.ones(()))),
        "mixed_precision": algo.mixed_precision,
    }


def _read_skrl(trainer: Any) -> dict[str, object]:
    agent = trainer._agent
    cfg = agent.cfg
    agent.policy.act({"observations": torch.zeros(8, 2)}, role="policy")
    return {
        "horizon": cfg.rollouts,
        "epochs": cfg.learning_epochs,
        "minibatches": cfg.mini_batches,
        "learning_rate": agent.optimizer.param_groups[0]["lr"],
        "kl_target": agent.scheduler.kl_threshold,
        "clip": cfg.ratio_clip,
        "value_clip": cfg.value_clip == cfg.ratio_clip,
        "value_coef": cfg.value_loss_scale,
        "entropy_coef": cfg.entropy_loss_scale,
        "max_grad_norm": cfg.grad_norm_clip,
        "discount": cfg.discount_factor,
        "gae_lambda": cfg.gae_lambda,
        "initial_noise_std": float(agent.policy.distribution(role="policy").stddev.mean()),
        "observation_normalization": "observation_preprocessor" in agent.checkpoint_modules,
        "value_normalization": "value_preprocessor" in agent.checkpoint_modules,
        "timeout_bootstrap": cfg.time_limit_bootstrap,
        "reward_scale": float(cfg.rewards_shaper(torch.ones(()), 0, 1)),
        "mixed_precision": agent.scaler.is_enabled(),
    }


READ = {"rsl_rl": _read_rsl_rl, "rl_games": _read_rl_games, "skrl": _read_skrl}
"""What a learner that has been built works with, by the recipe's names."""


@every_library
def test_every_field_of_a_recipe_reaches_the_learner(library: str, tmp_path: Path) -> None:
    unusual: dict[str, object] = {
        "horizon": 12,
        "epochs": 3,
        "minibatches": 6,
        "learning_rate": 3e-3,
        "kl_target": 0.03,
        "clip": 0.3,
        "value_coef": 0.7,
        "entropy_coef": 0.007,
        "max_grad_norm": 0.6,
        "discount": 0.9,
        "gae_lambda": 0.8,
        "initial_noise_std": 5.0,
        "observation_normalization": True,
        "value_normalization": True,
        "reward_scale": 0.5,
        "mixed_precision": True,
    }
    dialect = dialect_of(library)
    known = {name: value for name, value in unusual.items() if name not in dialect.only}
    recipe = replace(CARTPOLE, **known)  # type: ignore[arg-type]
    training = Training(library, tmp_path, heard=Heard(), max_iterations=1, recipe=recipe)
    found = READ[library](training.trainer)
    assert set(found) >= set(known)
    asked = {**known, "value_clip": True, "timeout_bootstrap": True}
    assert found == pytest.approx({name: asked[name] for name in found})
    training.train()


@every_library
def test_observations_of_the_value_function_are_as_documented(library: str, tmp_path: Path) -> None:
    adapter, agent_cfg = configured(library, max_iterations=1)
    env, clock, heard = Watched(), PhaseClock(time.perf_counter_ns()), Heard()
    trainer: Any = adapter.trainer(env, agent_cfg, tmp_path, clock, heard.record)  # type: ignore[arg-type]
    widths = {
        "rsl_rl": lambda: trainer._runner.alg.critic.mlp[0].in_features,
        "rl_games": lambda: trainer._algo.model.a2c_network.critic_mlp[0].in_features,
        "skrl": lambda: trainer._agent.value.net_container[0].in_features,
    }
    trainer.train(heard.on_iteration)
    privileged = widths[library]() == 1
    assert privileged == (library == "rsl_rl"), "as docs/reference/recipe_differences.md says"
