"""SAC and TD3 are bounded, fill their memory with what the learner saw, report figures, and load what they saved."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger.libraries import dialect_of
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.panels.view import TrainingView
from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.training.runners.adapter import load_adapter
from tests.fakes.observers import Heard
from tests.fakes.off_policy import LEARNERS, RECIPES, Training, require_same_learner
from tests.fakes.stock_memories import RlGamesStock, SkrlStock
from tests.fakes.toy_env import Privileged, ToyEnv

each_algorithm = pytest.mark.parametrize("algorithm", RECIPES)
each_learner = pytest.mark.parametrize(("library", "algorithm"), LEARNERS)


@pytest.fixture(scope="module", params=LEARNERS, ids="-".join)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A short training with normalized observations."""
    library, algorithm = request.param
    run_dir = tmp_path_factory.mktemp(algorithm)
    training = Training(algorithm, run_dir, library=library, observation_normalization=True)
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


def test_the_replay_memory_holds_what_the_learner_saw_and_did(trained: Training) -> None:
    env = trained.env
    assert torch.equal(trained.stored("observations"), torch.stack(env.observed))
    assert torch.equal(trained.stored("actions"), torch.stack(env.actions))
    assert torch.allclose(trained.stored("rewards").squeeze(-1), 10.0 * torch.stack(env.rewarded)), "scaled"
    assert torch.equal(trained.stored("terminated").squeeze(-1), torch.stack(env.failed))
    after, seen = trained.stored("next_observations")[:-1], torch.stack(env.observed[1:])
    timed_out = ~(after == seen).all(dim=-1)
    assert timed_out.any()
    assert torch.equal(after[timed_out], trained.stored("observations")[:-1][timed_out]), "never the next episode's"


@each_learner
def test_a_training_equals_one_with_the_librarys_memory_bit_for_bit(
    library: str, algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe: dict[str, Any] = {"library": library, "iterations": 5, "observation_normalization": True}
    ours = Training(algorithm, tmp_path / "ours", env=Privileged(), **recipe)
    ours.train()
    monkeypatch.setattr("ledger_lab.off_policy.skrl.adapter.SkrlMemory", SkrlStock)
    monkeypatch.setattr("ledger_lab.off_policy.rl_games.adapter.RlGamesMemory", RlGamesStock)
    stock = Training(algorithm, tmp_path / "stock", env=Privileged(), **recipe)
    stock.train()
    assert ours.memory.replay.added > 48, "steps were overwritten"
    require_same_learner(ours, stock)


class View(TrainingView):
    """What the learner sees of the toy, which the libraries' wrappers take for an environment of Isaac Lab."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return self._env.__class__


class Slots:
    """Held-out slots of the toy: the last three of its eight, where another policy acts."""

    first = 5

    def __init__(self, env: ToyEnv) -> None:
        self._env = env

    def step(self, actions: torch.Tensor) -> tuple[Any, ...]:
        return self._env.step(torch.cat([actions, torch.full((3, 1), 0.01)]))


@each_learner
def test_held_out_episodes_never_enter_the_replay_memory(library: str, algorithm: str, tmp_path: Path) -> None:
    env = ToyEnv()
    view = View(env, Slots(env))  # type: ignore[arg-type]
    training = Training(algorithm, tmp_path, library=library, env=view, iterations=2)
    training.train()
    stored = training.stored("observations")[:32]
    seen = torch.stack(env.observed)
    assert seen.shape == (32, 8, 2)
    assert torch.equal(stored, seen[:, :5])


def test_actions_stay_within_the_bound(trained: Training) -> None:
    done = torch.stack(trained.env.actions)
    assert done.abs().max() <= 2.0
    assert done[:4].abs().max() > 1.0, "drawn uniformly"


def test_a_checkpoint_of_another_algorithm_is_refused(trained: Training, tmp_path: Path) -> None:
    library, algorithm = trained.library, trained.adapter.dialect.algorithm
    ppo = load_adapter(library)
    agent_cfg = ppo.prepare(dialect_of(library).translate(CARTPOLE), "cpu", max_iterations=1)
    trainer: Any = ppo.trainer(ToyEnv(), agent_cfg, tmp_path, PhaseClock(time.perf_counter_ns()), Heard().record)  # type: ignore[arg-type]
    trainer._write(tmp_path / "ppo.pt")
    if library == "rl_games":
        trainer._algo.writer.close()  # its thread would outlive the test
    others = ["ppo.pt"]
    for other in {other for named, other in LEARNERS if named == library} - {algorithm}:
        Training(other, tmp_path, observation_normalization=True).trainer._write(tmp_path / f"{other}.pt")
        others.append(f"{other}.pt")
    complaint = f"cannot be loaded as a policy of {trained.adapter.dialect.title}'s {algorithm.upper()}"
    for name in others:
        with pytest.raises(UserError, match=complaint):
            trained.adapter.load_policy(tmp_path / name, trained.env, trained.agent_cfg)
    with pytest.raises(UserError, match="cannot be loaded as a policy of"):
        ppo.load_policy(trained.trainer._run_dir / trained.trainer.save().path, trained.env, agent_cfg)
