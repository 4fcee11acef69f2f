"""What SAC of rl_games has besides what all algorithms with a replay memory have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.training.runners.configs import require_values
from tests.fakes.off_policy import Training, adapter, put, translated
from tests.fakes.toy_env import ToyEnv


def sac(run_dir: Path, **changed: Any) -> Training:
    """Return a training with SAC of rl_games."""
    return Training("sac", run_dir, library="rl_games", **changed)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A short training with normalized observations."""
    training = sac(tmp_path_factory.mktemp("sac"), observation_normalization=True)
    training.train()
    return training


def test_the_policy_acts_and_updates_begin_in_the_middle_of_an_iteration(tmp_path: Path) -> None:
    training = sac(tmp_path, random_steps=12, warm_up_steps=5, updates_per_step=3, iterations=2)
    algo, drawn, updated = training.agent, [], []
    act, update = algo.act, algo.update

    def watched_act(*args: Any, **kwargs: Any) -> torch.Tensor:
        drawn.append(training.trainer._acts_randomly)
        actions: torch.Tensor = act(*args, **kwargs)
        return actions

    def watched_update(*args: Any) -> Any:
        updated.append(len(drawn))
        return update(*args)

    algo.act, algo.update = watched_act, watched_update
    training.train()
    assert drawn == [True] * 12 + [False] * 20
    assert updated == [step for step in range(6, 33) for _ in range(3)], "after the step"
    assert torch.stack(training.env.actions[:12]).abs().max() > 1.0, "drawn uniformly within the bound of 2"


def test_a_failure_in_the_last_step_of_an_episode_is_a_failure(tmp_path: Path) -> None:
    class Short(ToyEnv):
        max_episode_length = 1

        def step(self, actions: torch.Tensor) -> tuple[Any, ...]:
            self.position = torch.where(torch.arange(self.num_envs) < 3, 9.0, self.position)
            return super().step(actions)

    training = sac(tmp_path, env=Short(), iterations=2)
    training.train()
    failed = training.stored("terminated")[:32].squeeze(-1)
    assert failed[:, :3].all() and not failed[:, 3:].any()


def test_a_saved_policy_acts_as_the_librarys_mean(trained: Training) -> None:
    path = trained.trainer._run_dir / trained.trainer.save().path
    policy = trained.adapter.load_policy(path, trained.env, trained.agent_cfg)
    groups = {"policy": 3.0 * torch.randn(32, 2)}
    algo = trained.agent
    algo.set_eval()
    with torch.no_grad():
        mean = algo.rescale_actions(algo.model.actor(algo.preproc_obs(groups["policy"])).mean)
    torch.testing.assert_close(policy(groups), mean)
    assert 1.0 < policy({"policy": torch.tensor([[-90.0, 1.0], [90.0, 1.0]])}).abs().max() <= 2.0


def test_a_resumed_training_acts_by_its_policy_from_the_first_step(trained: Training, tmp_path: Path) -> None:
    resumed = sac(tmp_path, iterations=6, observation_normalization=True)
    resumed.trainer.restore(trained.trainer.state())
    resumed.agent.model.sac_network.actor.register_forward_hook(lambda *_: seen.append(len(resumed.env.actions)))
    seen: list[int] = []
    resumed.train()
    assert seen[:20] == [*range(20)], "until the first update"


def test_every_field_of_a_recipe_reaches_the_learner(tmp_path: Path) -> None:
    asked = {
        "horizon": 12,
        "learning_rate": 3e-3,
        "action_bound": 0.5,
        "replay_steps": 40,
        "batch_size": 24,
        "updates_per_step": 3,
        "activation": "tanh",
        "hidden_dims": (6, 5),
        "observation_normalization": True,
        "discount": 0.9,
        "polyak": 0.3,
        "reward_scale": 0.5,
        "initial_entropy_coef": 0.3,
    }
    training = sac(tmp_path, **asked)
    algo = training.agent
    layers = [*algo.model.sac_network.actor.trunk]
    found = {
        "horizon": algo.num_steps_per_episode,
        "learning_rate": algo.actor_optimizer.param_groups[0]["lr"],
        "action_bound": float(algo.action_high[0]),
        "replay_steps": training.trainer.replay.steps,
        "batch_size": algo.batch_size,
        "updates_per_step": algo.num_updates_per_step,
        "activation": type(layers[1]).__name__.lower(),
        "hidden_dims": tuple(layer.out_features for layer in layers[:-1:2]),
        "observation_normalization": algo.normalize_input,
        "discount": algo.gamma,
        "polyak": algo.critic_tau,
        "reward_scale": float(training.trainer._scale_rewards(torch.ones(()))),
        "initial_entropy_coef": algo.alpha.item(),
    }
    assert found == pytest.approx(asked)
    optimizers = (algo.critic_optimizer, algo.log_alpha_optimizer)
    assert [each.param_groups[0]["lr"] for each in optimizers] == [3e-3, 3e-3]
    assert algo.policy_frequency == 1
    training.train()


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("params.env.clip_actions", None, "agent.params.env.clip_actions is missing: SAC of rl_games needs"),
        ("params.env.clip_actions", float("inf"), "agent.params.env.clip_actions inf: must be positive, and finite"),
        ("replay_steps", 0, "agent.replay_steps 0: must be a whole number"),
        ("random_steps", None, "agent.random_steps is missing"),
        ("params.config.batch_size", 0, "agent.params.config.batch_size 0"),
        ("params.config.num_steps_per_episode", 1.5, "agent.params.config.num_steps_per_episode 1.5"),
        ("params.config.replay_buffer_size", 1000, "agent.replay_steps the steps of each: leave it out"),
        ("params.config.num_warmup_steps", 5, "agent.warm_up_steps is the number .*: leave it out"),
        ("params.config.mixed_precision", True, "it would round the discount factor, 0.99 to 0.988: leave it out"),
        ("params.config.torch_compile", True, "it would compile nothing, .*: leave it out"),
        ("params.config.lr_schedule", "linear", "SAC of rl_games keeps its learning rates: leave it out"),
        ("params.config.policy_frequency", 2, "reports losses of 0, and may fail: set it to 1"),
        ("params.config.learnable_temperature", False, "only a learned entropy coefficient: set it to True"),
        ("params.config.actor_lr", None, "agent.params.config.actor_lr is missing"),
        ("params.network.separate", False, "agent.params.network.separate False: .*: set it to True"),
        ("params.network.rnn", {"name": "gru"}, "SAC of rl_games has no recurrent layers: leave it out"),
        ("params.env.obs_groups", {"obs": ["policy", "more"]}, "group policy only: leave obs_groups"),
        ("params.algo.name", "a2c_continuous", r"only 'sac' \(SAC\) is trained"),
        ("params.model.name", "continuous_a2c_logstd", "SAC of rl_games needs this model: set it to"),
    ],
)
def test_settings_that_cannot_be_trained_are_refused(path: str, value: object, complaint: str) -> None:
    agent_cfg = translated("sac", "rl_games")
    put(agent_cfg, path, value)
    learner = adapter("sac", "rl_games")
    with pytest.raises(UserError, match=complaint) as refused:
        require_values(learner.prepare(agent_cfg, "cpu"), learner)
    assert "\n" not in str(refused.value)
