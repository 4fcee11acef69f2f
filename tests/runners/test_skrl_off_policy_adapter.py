"""SAC of SKRL is bounded, resumes, fills its replay memory with what the learner saw, and loads what it saved."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.meters import Phase, PhaseClock
from ledger_lab.panels.view import TrainingView
from ledger_lab.recipes import CARTPOLE, CARTPOLE_OFF_POLICY, dialect_of
from ledger_lab.runners.adapter import load_adapter
from tests.fakes.observers import Heard
from tests.fakes.toy_env import ToyEnv

ADAPTER = load_adapter("skrl", "skrl_sac_cfg_entry_point")
RECIPE = replace(
    CARTPOLE_OFF_POLICY,
    horizon=16,
    replay_steps=48,
    random_steps=4,
    warm_up_steps=20,
    batch_size=16,
    hidden_dims=(8,),
    action_bound=2.0,
)


class Training:
    """A training on the toy."""

    def __init__(self, run_dir: Path, heard: Heard | None = None, iterations: int = 3, **changed: Any) -> None:
        torch.manual_seed(5)
        config = dialect_of("skrl", "sac").translate(replace(RECIPE, **changed))
        self.agent_cfg = ADAPTER.prepare(config, "cpu", seed=5, max_iterations=iterations)
        self.env, self.heard = ToyEnv(), heard or Heard()
        self.clock = PhaseClock(time.perf_counter_ns())
        self.trainer: Any = ADAPTER.trainer(self.env, self.agent_cfg, run_dir, self.clock, self.heard.record)  # type: ignore[arg-type]

    def train(self) -> None:
        self.trainer.train(self.heard.on_iteration)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A short training with normalized observations."""
    training = Training(tmp_path_factory.mktemp("sac"), observation_normalization=True)
    training.clock.set_base(Phase.UNATTRIBUTED)
    training.train()
    return training


def test_every_iteration_is_reported(trained: Training) -> None:
    assert list(trained.heard.figures) == [1, 2, 3]
    assert set(trained.heard.figures[1]) == {"mean_return", "mean_episode_steps"}, "before the first update"
    last = trained.heard.figures[3]
    assert {"policy_loss", "value_loss", "entropy", "action_std", "learning_rate"} <= set(last)
    assert all(math.isfinite(value) for value in last.values())
    assert len(trained.env.actions) == 3 * 16
    assert {"manage", "infer", "learn", "log", "checkpoint"} <= set(trained.clock.flush()[0])


def test_the_replay_memory_holds_what_the_learner_saw_and_did(trained: Training) -> None:
    memory = trained.trainer._agent.memory
    assert memory.filled and len(memory) == 48 * trained.env.num_envs
    stored = {name: memory.get_tensor_by_name(name) for name in ("observations", "actions", "next_observations")}
    assert torch.equal(stored["observations"], torch.stack(trained.env.observed))
    assert torch.equal(stored["actions"], torch.stack(trained.env.actions))
    after, seen = stored["next_observations"][:-1], torch.stack(trained.env.observed[1:])
    timed_out = ~(after == seen).all(dim=-1)
    assert timed_out.any()
    assert torch.equal(after[timed_out], stored["observations"][:-1][timed_out]), "never the next episode's"


class Slots:
    """Held-out slots of the toy: the last three of its eight, where another policy acts."""

    first = 5

    def __init__(self, env: ToyEnv) -> None:
        self._env = env

    def step(self, actions: torch.Tensor) -> tuple[Any, ...]:
        return self._env.step(torch.cat([actions, torch.full((3, 1), 0.01)]))


def test_held_out_episodes_never_enter_the_replay_memory(tmp_path: Path) -> None:
    env, heard = ToyEnv(), Heard()
    config = ADAPTER.prepare(dialect_of("skrl", "sac").translate(RECIPE), "cpu", max_iterations=2)
    view: Any = TrainingView(env, Slots(env))  # type: ignore[arg-type]
    trainer: Any = ADAPTER.trainer(view, config, tmp_path, PhaseClock(time.perf_counter_ns()), heard.record)
    trainer.train(heard.on_iteration)
    stored = trainer._agent.memory.get_tensor_by_name("observations")[:32]
    seen = torch.stack(env.observed)
    assert seen.shape == (32, 8, 2)
    assert torch.equal(stored, seen[:, :5])


def test_the_gradient_norm_is_reported_if_gradients_are_clipped(tmp_path: Path) -> None:
    training = Training(tmp_path, iterations=2)
    training.trainer._agent.cfg.grad_norm_clip = 1.0
    training.train()
    assert training.heard.figures[2]["grad_norm"] > 0.0
    assert not training.trainer._norms, "does not grow over the training"


def test_actions_stay_within_the_bound(trained: Training) -> None:
    done = torch.stack(trained.env.actions)
    assert done.abs().max() <= 2.0
    assert done[:4].abs().max() > 1.0, "drawn uniformly"


def test_the_density_of_squashed_actions_is_right(trained: Training) -> None:
    inputs = {"observations": torch.zeros(40_000, 2)}
    with torch.no_grad():
        actions, outputs = trained.trainer._agent.policy.act(inputs, role="policy")
    shares, density = (actions / 2.0).squeeze(), outputs["log_prob"].exp().squeeze()
    assert float((1.0 / density).mean()) == pytest.approx(float(shares.max() - shares.min()), rel=0.2), (
        "∫ p · 1/p over where the samples lie"
    )


def test_a_saved_policy_acts_as_the_librarys_mean(trained: Training) -> None:
    path = trained.trainer._run_dir / trained.trainer.save().path
    policy = ADAPTER.load_policy(path, trained.env, trained.agent_cfg)  # type: ignore[arg-type]
    groups = {"policy": torch.randn(32, 2)}
    agent = trained.trainer._agent
    _, outputs = agent.policy.act({"observations": agent._observation_preprocessor(groups["policy"])}, role="policy")
    assert torch.equal(policy(groups), outputs["mean_actions"])
    assert policy(groups).abs().max() <= 2.0


def test_a_checkpoint_of_ppo_is_refused(trained: Training, tmp_path: Path) -> None:
    ppo = load_adapter("skrl")
    config = ppo.prepare(dialect_of("skrl").translate(CARTPOLE), "cpu", max_iterations=1)
    trainer: Any = ppo.trainer(ToyEnv(), config, tmp_path, PhaseClock(time.perf_counter_ns()), Heard().record)  # type: ignore[arg-type]
    trainer._write(tmp_path / "ppo.pt")
    with pytest.raises(UserError, match="cannot be loaded as a policy of SKRL's SAC"):
        ADAPTER.load_policy(tmp_path / "ppo.pt", trained.env, trained.agent_cfg)  # type: ignore[arg-type]


def test_a_resumed_training_keeps_the_learner_and_refills(trained: Training, tmp_path: Path) -> None:
    state = trained.trainer.state()
    resumed = Training(tmp_path, iterations=5, observation_normalization=True)
    resumed.trainer.restore(state)
    again = resumed.trainer.state()
    assert torch.equal(again["log_entropy_coefficient"], state["log_entropy_coefficient"])
    assert float(resumed.trainer._agent._entropy_coefficient) == pytest.approx(
        float(trained.trainer._agent._entropy_coefficient)
    )
    assert len(resumed.trainer._agent.memory) == 0
    resumed.train()
    assert list(resumed.heard.figures) == [4, 5]
    assert "value_loss" not in resumed.heard.figures[4], "waits until the memory has refilled"
    assert "value_loss" in resumed.heard.figures[5]


def test_a_replay_memory_that_does_not_fit_is_refused_before_it_is_allocated(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"agent.memory.memory_size 10{12}: .* are free: there is room for \d+ steps"):
        Training(tmp_path, replay_steps=10**12)


class Privileged(ToyEnv):
    """The toy, which has observations for the value function alone."""

    def __init__(self) -> None:
        super().__init__()
        box = gym.spaces.Box(-np.inf, np.inf, (1,))
        self.single_observation_space = gym.spaces.Dict({**self.single_observation_space.spaces, "critic": box})

    @property
    def obs_buf(self) -> dict[str, torch.Tensor]:
        return {**super().obs_buf, "critic": self.position.unsqueeze(1)}


def test_the_accounted_memory_is_what_the_library_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ADAPTER.prepare(dialect_of("skrl", "sac").translate(RECIPE), "cpu", max_iterations=2)
    heard, clock, env = Heard(), PhaseClock(time.perf_counter_ns()), Privileged()
    trainer: Any = ADAPTER.trainer(env, config, tmp_path, clock, heard.record)  # type: ignore[arg-type]
    trainer.train(heard.on_iteration)
    memory = trainer._agent.memory
    tensors = sum(tensor.numel() * tensor.element_size() for tensor in memory.tensors.values())
    held = tensors + memory.all_sequence_indexes.nbytes
    monkeypatch.setattr("ledger_lab.runners.replay.usable_bytes", lambda: held)
    ADAPTER.trainer(Privileged(), config, tmp_path, clock, heard.record)  # type: ignore[arg-type]
    monkeypatch.setattr("ledger_lab.runners.replay.usable_bytes", lambda: held - 1)
    with pytest.raises(UserError, match="there is room for 47 steps"):
        ADAPTER.trainer(Privileged(), config, tmp_path, clock, heard.record)  # type: ignore[arg-type]


def test_discrete_actions_are_refused(tmp_path: Path) -> None:
    class Discrete(ToyEnv):
        def __init__(self) -> None:
            super().__init__()
            self.single_action_space = gym.spaces.Discrete(3)  # type: ignore[assignment]

    config = ADAPTER.prepare(dialect_of("skrl", "sac").translate(RECIPE), "cpu")
    with pytest.raises(UserError, match="needs continuous actions: use --algorithm ppo"):
        ADAPTER.trainer(Discrete(), config, tmp_path, PhaseClock(time.perf_counter_ns()), Heard().record)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("action_bound", None, "agent.action_bound None: .*have no bounds"),
        ("agent.batch_size", 0, "agent.agent.batch_size 0"),
        ("agent.learning_starts", -1, "agent.agent.learning_starts -1"),
        ("agent.learning_starts", 10**6, "before its first update: lower it, or raise --max_iterations"),
        ("memory.memory_size", -1, "agent.memory.memory_size -1"),
        ("agent.learn_entropy", False, "agent.agent.learn_entropy False"),
        ("agent.learning_rate_scheduler", "KLAdaptiveLR", "would not change: leave it out"),
        ("agent.class", "TD3", "agent.agent.class 'TD3': LedgerLab supports only SAC"),
    ],
)
def test_settings_that_cannot_be_trained_are_refused(path: str, value: object, complaint: str) -> None:
    config: Any = dialect_of("skrl", "sac").translate(RECIPE)
    *groups, name = path.split(".")
    node = config
    for group in groups:
        node = node[group]
    node[name] = value
    with pytest.raises(UserError, match=complaint):
        ADAPTER.prepare(config, "cpu")
