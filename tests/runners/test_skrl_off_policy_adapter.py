"""SAC and TD3 of SKRL are bounded, resume, fill their memory with what the learner saw, and load what they saved."""

from __future__ import annotations

import copy
import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from skrl.memories.torch import RandomMemory

from ledger_lab.errors import UserError
from ledger_lab.meters import Phase, PhaseClock
from ledger_lab.panels.view import TrainingView
from ledger_lab.recipes import CARTPOLE, dialect_of
from ledger_lab.runners.adapter import load_adapter
from ledger_lab.runners.process_group import ALONE
from ledger_lab.runners.skrl.adapter import config
from tests.fakes.observers import Heard
from tests.fakes.off_policy import RECIPES, Training, adapter, translated
from tests.fakes.toy_env import ToyEnv

each_algorithm = pytest.mark.parametrize("algorithm", RECIPES)


@pytest.fixture(scope="module", params=RECIPES)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A short training with normalized observations."""
    training = Training(request.param, tmp_path_factory.mktemp(request.param), observation_normalization=True)
    training.clock.set_base(Phase.UNATTRIBUTED)
    training.train()
    return training


def test_every_iteration_is_reported(trained: Training) -> None:
    assert list(trained.heard.figures) == [1, 2, 3]
    first, second, last = trained.heard.figures.values()
    assert set(first) == {"mean_return", "mean_episode_steps", "replay_fill"}, "before the first update"
    assert {"policy_loss", "value_loss", "learning_rate"} <= set(last)
    assert [each["replay_fill"] for each in (first, second, last)] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert 0 < second["replay_age"] < 32 and 0 < last["replay_age"] < 48
    assert all(math.isfinite(value) for value in last.values())
    assert len(trained.env.actions) == 3 * 16
    phases = {"manage", "infer", "replay_write", "replay_sample", "learn", "log", "checkpoint"}
    assert phases <= set(trained.clock.flush()[0])


def stored(training: Training) -> dict[str, torch.Tensor]:
    """Return all transitions of a replay memory that has been filled at most once, of shape (steps, num_envs, size)."""
    replay = training.trainer.replay
    index = torch.arange(len(replay))
    parts = {name: (name, index) for name in ("observations", "actions")}
    parts["next_observations"] = ("observations", replay._next.view(-1)[: len(replay)])
    return {name: replay.read(*of).unflatten(0, (-1, replay.num_envs)) for name, of in parts.items()}


def test_the_replay_memory_holds_what_the_learner_saw_and_did(trained: Training) -> None:
    assert len(trained.agent.memory) == 48 * trained.env.num_envs
    held = stored(trained)
    assert torch.equal(held["observations"], torch.stack(trained.env.observed))
    assert torch.equal(held["actions"], torch.stack(trained.env.actions))
    after, seen = held["next_observations"][:-1], torch.stack(trained.env.observed[1:])
    timed_out = ~(after == seen).all(dim=-1)
    assert timed_out.any()
    assert torch.equal(after[timed_out], held["observations"][:-1][timed_out]), "never the next episode's"


class StockMemory(RandomMemory):
    """The library's own memory, which stores each observation twice."""

    replay = SimpleNamespace(fill=0.0, mean_age=lambda: None)


@each_algorithm
def test_a_training_equals_one_with_the_librarys_memory_bit_for_bit(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Training(algorithm, tmp_path / "ours", env=Privileged(), iterations=5, observation_normalization=True)
    ours.train()
    monkeypatch.setattr("ledger_lab.runners.skrl.off_policy_adapter.SkrlMemory", StockMemory)
    stock = Training(algorithm, tmp_path / "stock", env=Privileged(), iterations=5, observation_normalization=True)
    stock.train()
    assert ours.agent.memory.replay.added > 48, "steps were overwritten"
    require_same_learner(ours, stock)


def require_same_learner(one: Training, other: Training) -> None:
    """Check that two trainings have the same learner, bit for bit."""
    hashes: list[str] = []
    for training in (one, other):
        ALONE.require_equal(training.trainer.state(), hashes.append)
    assert hashes[0] == hashes[1]


class Slots:
    """Held-out slots of the toy: the last three of its eight, where another policy acts."""

    first = 5

    def __init__(self, env: ToyEnv) -> None:
        self._env = env

    def step(self, actions: torch.Tensor) -> tuple[Any, ...]:
        return self._env.step(torch.cat([actions, torch.full((3, 1), 0.01)]))


@each_algorithm
def test_held_out_episodes_never_enter_the_replay_memory(algorithm: str, tmp_path: Path) -> None:
    env = ToyEnv()
    view = TrainingView(env, Slots(env))  # type: ignore[arg-type]
    training = Training(algorithm, tmp_path, env=view, iterations=2)
    training.train()
    seen = torch.stack(env.observed)
    assert seen.shape == (32, 8, 2)
    assert torch.equal(stored(training)["observations"], seen[:, :5])


@each_algorithm
def test_the_gradient_norm_is_reported_if_gradients_are_clipped(algorithm: str, tmp_path: Path) -> None:
    training = Training(algorithm, tmp_path, iterations=2)
    training.agent.cfg.grad_norm_clip = 1.0
    training.train()
    assert training.heard.figures[2]["grad_norm"] > 0.0
    assert not training.trainer._norms, "does not grow over the training"


def test_every_network_is_in_the_profile(trained: Training) -> None:
    parts = trained.trainer.parts()
    assert all(callable(getattr(part.owner, part.attribute)) for part in parts)
    assert {f"{role} forward" for role in trained.agent.models} <= {part.name for part in parts}


def test_actions_stay_within_the_bound(trained: Training) -> None:
    done = torch.stack(trained.env.actions)
    assert done.abs().max() <= 2.0
    assert done[:4].abs().max() > 1.0, "drawn uniformly"


def test_a_checkpoint_of_another_algorithm_is_refused(trained: Training, tmp_path: Path) -> None:
    other = next(name for name in RECIPES if name != trained.adapter.dialect.algorithm)
    Training(other, tmp_path, observation_normalization=True).trainer._write(tmp_path / "other.pt")
    ppo = load_adapter("skrl")
    agent_cfg = ppo.prepare(dialect_of("skrl").translate(CARTPOLE), "cpu", max_iterations=1)
    trainer: Any = ppo.trainer(ToyEnv(), agent_cfg, tmp_path, PhaseClock(time.perf_counter_ns()), Heard().record)  # type: ignore[arg-type]
    trainer._write(tmp_path / "ppo.pt")
    complaint = f"cannot be loaded as a policy of SKRL's {trained.adapter.dialect.algorithm.upper()}"
    for name in ("other.pt", "ppo.pt"):
        with pytest.raises(UserError, match=complaint):
            trained.adapter.load_policy(tmp_path / name, trained.env, trained.agent_cfg)


def test_a_resumed_training_keeps_the_learner_and_refills(trained: Training, tmp_path: Path) -> None:
    state = trained.trainer.state()
    resumed = Training(trained.adapter.dialect.algorithm, tmp_path, iterations=5, observation_normalization=True)
    resumed.trainer.restore(state)
    again = resumed.trainer.state()
    assert all(torch.equal(again["policy"][name], value) for name, value in state["policy"].items())
    assert len(resumed.agent.memory) == 0
    resumed.train()
    assert list(resumed.heard.figures) == [4, 5]
    assert "value_loss" not in resumed.heard.figures[4], "waits until the memory has refilled"
    assert "value_loss" in resumed.heard.figures[5]


@each_algorithm
@pytest.mark.parametrize("interrupted", [1, 4])
def test_a_training_resumed_with_its_replay_memory_is_the_same_training(
    algorithm: str, interrupted: int, tmp_path: Path
) -> None:
    recipe: dict[str, Any] = {"iterations": 6, "observation_normalization": True, "random_steps": 20}
    whole = Training(algorithm, tmp_path / "whole", **recipe)
    whole.train()
    begun = Training(algorithm, tmp_path / "begun", **recipe)
    begun.heard.stop_after = interrupted
    begun.train()
    resumed = Training(algorithm, tmp_path / "resumed", **recipe)
    memory, restored = begun.trainer.replay, resumed.trainer.replay
    restored.write_steps(memory.oldest, memory.copy_steps(memory.oldest, memory.added - 1))
    restored.restore_newest(memory.newest())
    resumed.trainer.restore(begun.trainer.state())
    carried = zip(begun.trainer.carried(), resumed.trainer.carried(), strict=True)
    for (source, names), (target, _) in carried:
        for name in names:
            setattr(target, name, copy.deepcopy(getattr(source, name)))
    resumed.env.position, resumed.env.episode_length_buf = begun.env.position, begun.env.episode_length_buf
    torch.set_rng_state(begun.chance)
    resumed.train()
    require_same_learner(resumed, whole)
    assert {**begun.heard.figures, **resumed.heard.figures} == whole.heard.figures


@each_algorithm
def test_a_replay_memory_that_does_not_fit_is_refused_before_it_is_allocated(algorithm: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"agent.memory.memory_size 10{12}: .* are free: there is room for \d+ steps"):
        Training(algorithm, tmp_path, replay_steps=10**12)


class Privileged(ToyEnv):
    """The toy, which has observations for the value function alone."""

    def __init__(self) -> None:
        super().__init__()
        box = gym.spaces.Box(-np.inf, np.inf, (1,))
        self.single_observation_space = gym.spaces.Dict({**self.single_observation_space.spaces, "critic": box})

    @property
    def obs_buf(self) -> dict[str, torch.Tensor]:
        return {**super().obs_buf, "critic": self.position.unsqueeze(1)}


@each_algorithm
def test_the_accounted_memory_is_what_is_held(algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Training(algorithm, tmp_path, env=Privileged()).trainer.replay.nbytes
    monkeypatch.setattr("ledger_lab.runners.replay.usable_bytes", lambda: held)
    Training(algorithm, tmp_path, env=Privileged())
    monkeypatch.setattr("ledger_lab.runners.replay.usable_bytes", lambda: held - 1)
    with pytest.raises(UserError, match="there is room for 47 steps"):
        Training(algorithm, tmp_path, env=Privileged())


@each_algorithm
def test_discrete_actions_are_refused(algorithm: str, tmp_path: Path) -> None:
    class Discrete(ToyEnv):
        def __init__(self) -> None:
            super().__init__()
            self.single_action_space = gym.spaces.Discrete(3)  # type: ignore[assignment]

    with pytest.raises(UserError, match=f"{algorithm.upper()} needs continuous actions: use --algorithm ppo"):
        Training(algorithm, tmp_path, env=Discrete())


@each_algorithm
def test_several_processes_are_refused(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config.torch, "_is_distributed", True)
    with pytest.raises(UserError, match=f"{algorithm.upper()} of SKRL trains in one process only, because .*: leave"):
        adapter(algorithm).prepare(translated(algorithm), "cpu")


@each_algorithm
@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("action_bound", None, "agent.action_bound None: .*have no bounds"),
        ("agent.batch_size", 0, "agent.agent.batch_size 0"),
        ("agent.learning_starts", -1, "agent.agent.learning_starts -1"),
        ("agent.learning_starts", 10**6, "before its first update: lower it, or raise --max_iterations"),
        ("memory.memory_size", -1, "agent.memory.memory_size -1"),
        ("memory.class", "PrioritizedMemory", "agent.memory.class 'PrioritizedMemory': LedgerLab supports only Random"),
        ("memory.class", None, "agent.memory.class None: LedgerLab supports only RandomMemory"),
        ("memory.replacement", False, "agent.memory.replacement False: LedgerLab supports only True"),
        (
            "memory.export",
            True,
            "agent.memory.export True: LedgerLab's replay memory has no such setting: leave it out",
        ),
        ("agent.learning_rate_scheduler", "KLAdaptiveLR", "would not change: leave it out"),
        ("agent.class", "DDPG", "agent.agent.class 'DDPG': LedgerLab supports only (SAC|TD3)"),
        ("models.policy.class", "CategoricalMixin", "'CategoricalMixin': LedgerLab supports only"),
        ("models.critic_2", None, "agent.models.critic_2 is missing"),
    ],
)
def test_settings_that_cannot_be_trained_are_refused(algorithm: str, path: str, value: object, complaint: str) -> None:
    agent_cfg = translated(algorithm)
    put(agent_cfg, path, value)
    with pytest.raises(UserError, match=complaint):
        adapter(algorithm).prepare(agent_cfg, "cpu")


def put(agent_cfg: Any, path: str, value: object) -> None:
    """Set a value in a configuration; ``None`` removes it."""
    *groups, name = path.split(".")
    for group in groups:
        agent_cfg = agent_cfg[group]
    if value is None:
        del agent_cfg[name]
    else:
        agent_cfg[name] = value
