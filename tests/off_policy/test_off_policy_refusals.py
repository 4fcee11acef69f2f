"""SAC and TD3 refuse what cannot be trained: tasks, memories that do not fit, and settings, each in one line."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger.libraries import dialect_of
from ledger_lab.training.batch import plan_batch
from ledger_lab.training.runners import Adapter, BatchPlan
from ledger_lab.training.runners.configs import require_values
from tests.fakes.off_policy import LEARNERS, RECIPES, Training, adapter, put, translated
from tests.fakes.toy_env import Privileged, ToyEnv

each_algorithm = pytest.mark.parametrize("algorithm", RECIPES)


def planned(learner: Adapter, agent_cfg: Any) -> BatchPlan:
    """Return the arithmetic of a configuration, checked as in a training."""
    prepared = learner.prepare(agent_cfg, "cpu")
    require_values(prepared, learner)
    return plan_batch(learner, prepared)


each_learner = pytest.mark.parametrize(("library", "algorithm"), LEARNERS)


@each_learner
def test_a_replay_memory_that_does_not_fit_is_refused_before_it_is_allocated(
    library: str, algorithm: str, tmp_path: Path
) -> None:
    setting = dialect_of(library, algorithm).overrides["replay_steps"]
    with pytest.raises(UserError, match=rf"{setting} 10{{12}}: .* are free, .*: there is room for \d+ steps"):
        Training(algorithm, tmp_path, library=library, replay_steps=10**12)


@each_learner
def test_the_accounted_memory_is_what_is_held(
    library: str, algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe: dict[str, Any] = {"library": library, "env": Privileged()}
    held = Training(algorithm, tmp_path / "first", **recipe).trainer.replay.nbytes
    monkeypatch.setattr("ledger_lab.off_policy.replay_plan.usable_bytes", lambda: math.ceil(held / 0.9))
    Training(algorithm, tmp_path / "second", **recipe)
    monkeypatch.setattr("ledger_lab.off_policy.replay_plan.usable_bytes", lambda: math.ceil(held / 0.9) - 2)
    with pytest.raises(UserError, match="there is room for 47 steps"):
        Training(algorithm, tmp_path / "third", **recipe)


@each_learner
def test_discrete_actions_are_refused(library: str, algorithm: str, tmp_path: Path) -> None:
    class Discrete(ToyEnv):
        def __init__(self) -> None:
            super().__init__()
            self.single_action_space = gym.spaces.Discrete(3)  # type: ignore[assignment]

    with pytest.raises(UserError, match=f"{algorithm.upper()} of .* needs continuous actions: use --algorithm ppo"):
        Training(algorithm, tmp_path, library=library, env=Discrete())


def test_several_processes_are_refused_if_the_library_does_not_average_their_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    complaint = "SAC of rl_games trains in one process only, because the library does not average .*: leave out --nproc"
    with pytest.raises(UserError, match=complaint):
        adapter("sac", "rl_games").prepare(translated("sac", "rl_games"), "cpu")
    for algorithm in RECIPES:
        adapter(algorithm).prepare(translated(algorithm), "cpu")


def test_an_update_that_would_come_after_the_end_is_refused() -> None:
    def require(warm_up_steps: int, update_every: int = 1) -> None:
        agent_cfg = translated("sac", "skrl", warm_up_steps=warm_up_steps, update_every=update_every, horizon=16)
        learner = adapter("sac")
        plan = learner.plan(learner.prepare(agent_cfg, "cpu", max_iterations=3)).replay
        assert plan is not None
        plan.require_update(48)

    require(47)
    require(32, 16)
    with pytest.raises(UserError, match="learning_starts 48: the training ends after 48 steps, before its"):
        require(48)


@each_algorithm
@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("action_bound", None, "agent.action_bound is missing: (SAC|TD3) of SKRL needs it"),
        ("agent.batch_size", 0, "agent.agent.batch_size 0"),
        ("agent.learning_starts", -1, "agent.agent.learning_starts -1"),
        ("agent.gradient_steps", None, "configuration: agent.agent.gradient_steps is missing"),
        ("memory.memory_size", -1, "agent.memory.memory_size -1"),
        ("n_step", 0, "agent.n_step 0: must be a whole number of at least 1"),
        ("critic_layer_norm", 1, "agent.critic_layer_norm 1: must be true or false"),
        ("memory.class", "PrioritizedMemory", "agent.memory.class 'PrioritizedMemory': LedgerLab supports only Random"),
        ("memory.class", None, "agent.memory.class None: LedgerLab supports only RandomMemory"),
        ("memory.replacement", False, "agent.memory.replacement False: LedgerLab supports only True"),
        ("memory.export", True, "agent.memory.export True: leave it out"),
        ("agent.learning_rate_scheduler", "KLAdaptiveLR", "would not change: leave it out"),
        ("agent.class", "DDPG", "agent.agent.class 'DDPG': LedgerLab supports only (SAC|TD3)"),
        ("models.policy.class", "CategoricalMixin", "'CategoricalMixin': LedgerLab supports only"),
        ("models.critic_2", None, "agent.models.critic_2 is missing"),
        ("models.separate", False, "agent.models.separate: .* has separate networks: set it to true"),
        ("models.target_critic_1.class", "GaussianMixin", "'GaussianMixin': LedgerLab supports only Determini"),
        ("models.critic_1.output", "tanh(ONE)", "models.critic_1.output 'tanh.ONE.': LedgerLab supports only ONE"),
    ],
)
def test_settings_that_cannot_be_trained_are_refused(algorithm: str, path: str, value: object, complaint: str) -> None:
    agent_cfg = translated(algorithm)
    put(agent_cfg, path, value)
    with pytest.raises(UserError, match=complaint):
        planned(adapter(algorithm), agent_cfg)
