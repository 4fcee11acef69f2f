"""SAC and TD3 are bounded, resume, fill their memory with what the learner saw, and load what they saved."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.meters import Phase, PhaseClock
from ledger_lab.panels.view import TrainingView
from ledger_lab.recipes import CARTPOLE, dialect_of
from ledger_lab.runners.adapter import load_adapter
from ledger_lab.runners.configs import require_values
from ledger_lab.runners.off_policy import first_update, short_refill
from tests.fakes.observers import Heard
from tests.fakes.off_policy import (
    LEARNERS,
    RECIPES,
    Training,
    adapter,
    require_same_learner,
    translated,
)
from tests.fakes.stock_memories import RlGamesStock, SkrlStock
from tests.fakes.toy_env import ToyEnv

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


@each_algorithm
def test_the_loss_of_values_is_the_mean_of_the_critics(algorithm: str, tmp_path: Path) -> None:
    training = Training(algorithm, tmp_path)
    training.train()
    trainer = training.trainer
    (loss,) = {"sac": [0.5 * (3.0 + 5.0)], "td3": [3.0 + 5.0]}[algorithm]  # as the library reports them
    trainer._agent.tracking_data["Loss / Critic loss"] = [loss]
    assert trainer._read_figures()["value_loss"] == 4.0


def test_reported_returns_are_not_scaled(trained: Training) -> None:
    assert 0.0 < trained.heard.figures[3]["mean_return"] <= ToyEnv.max_episode_length


@each_learner
def test_a_training_equals_one_with_the_librarys_memory_bit_for_bit(
    library: str, algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe: dict[str, Any] = {"library": library, "iterations": 5, "observation_normalization": True}
    ours = Training(algorithm, tmp_path / "ours", env=Privileged(), **recipe)
    ours.train()
    monkeypatch.setattr("ledger_lab.runners.skrl.off_policy_adapter.SkrlMemory", SkrlStock)
    monkeypatch.setattr("ledger_lab.runners.rl_games.sac_adapter.RlGamesMemory", RlGamesStock)
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


@each_learner
def test_the_gradient_norm_is_reported_if_gradients_are_clipped(library: str, algorithm: str, tmp_path: Path) -> None:
    training = Training(algorithm, tmp_path, library=library, iterations=2)
    if library == "skrl":
        training.agent.cfg.grad_norm_clip = 1.0
    else:
        training.agent.critic_grad_clip = 1.0
    training.train()
    assert training.heard.figures[2]["grad_norm"] > 0.0
    assert not training.trainer._norms, "does not grow over the training"


def test_every_network_is_in_the_profile(trained: Training) -> None:
    parts = trained.trainer.parts()
    assert all(callable(getattr(part.owner, part.attribute)) for part in parts)
    models = trained.agent.models if trained.library == "skrl" else ("actor", "critic", "critic_target")
    assert {f"{role} forward" for role in models} <= {part.name for part in parts}


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


def resumed(trained: Training, run_dir: Path, iterations: int) -> Training:
    """Return a training of the same kind, ready to go on."""
    algorithm = trained.adapter.dialect.algorithm
    return Training(algorithm, run_dir, library=trained.library, iterations=iterations, observation_normalization=True)


def test_a_resumed_training_keeps_the_learner_and_refills(trained: Training, tmp_path: Path) -> None:
    torch.save(trained.trainer.state(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    again = resumed(trained, tmp_path / "again", 5)
    again.trainer.restore(state)
    kept = again.trainer.state()
    assert kept.keys() == state.keys()
    for name, part in state.items():
        for key, value in part.items() if isinstance(part, dict) else ():
            if isinstance(value, torch.Tensor):
                assert torch.equal(kept[name][key], value), f"{name} {key}"
    assert len(again.trainer.replay) == 0
    again.train()
    assert list(again.heard.figures) == [4, 5]
    assert "value_loss" not in again.heard.figures[4], "waits until the memory has refilled"
    assert "value_loss" in again.heard.figures[5]
    done = resumed(trained, tmp_path / "done", 3)
    done.trainer.restore(state)
    done.train()
    assert not done.heard.figures, "nothing is left to train"


@each_learner
def test_a_training_that_is_resumed_near_its_end_still_learns(library: str, algorithm: str, tmp_path: Path) -> None:
    begun, again = (Training(algorithm, tmp_path / name, library=library, iterations=4) for name in ("begun", "again"))
    begun.heard.stop_after = 3
    begun.train()
    again.trainer.restore(begun.trainer.state())
    again.train()
    (last,) = again.heard.figures.values()
    assert last["replay_fill"] == pytest.approx(1 / 3), "16 steps are left, fewer than the 20 before the first update"
    assert {"value_loss", "learning_rate"} <= set(last)


def test_a_short_refill_is_told_with_its_reason() -> None:
    for library, setting in (("skrl", "agent.agent.learning_starts"), ("rl_games", "agent.warm_up_steps")):
        told = short_refill(dialect_of(library, "sac"), translated("sac", library), 144, 160)
        assert told == f"16 steps are left, so the replay memory refills for 8 steps instead of 20 ({setting})"
        for done, steps in ((120, 160), (144, 1160), (160, 160), (2, 22)):
            assert short_refill(dialect_of(library, "sac"), translated("sac", library), done, steps) is None


def test_no_training_that_is_resumed_updates_earlier_than_a_new_one() -> None:
    assert first_update(1000, 5, 1016) == 1000
    assert first_update(1000, 800, 1016) == 1000
    assert first_update(1000, 990, 1016) == 1003
    assert first_update(10, 500, 1016) == 510


@pytest.mark.parametrize("library", ["skrl", "rl_games"])
@pytest.mark.parametrize("target", [-1.0, -0.25])
def test_a_learner_tells_the_entropy_that_it_aims_at(library: str, target: float, tmp_path: Path) -> None:
    assert Training("sac", tmp_path, library=library, entropy_target=target).trainer.entropy_target == target


def test_a_learner_without_entropy_aims_at_none(tmp_path: Path) -> None:
    assert Training("td3", tmp_path).trainer.entropy_target is None


def test_a_training_begins_with_networks_that_see_less(trained: Training, tmp_path: Path) -> None:
    checkpoint = trained.trainer._run_dir / trained.trainer.save().path
    wider = Training(
        trained.adapter.dialect.algorithm,
        tmp_path,
        library=trained.library,
        env=Wider(),
        observation_normalization=True,
    )
    wider.trainer.begin(checkpoint)
    seen, actions, more = torch.randn(16, 2), torch.randn(16, 1), torch.randn(16, 1)

    def value(training: Training, observations: torch.Tensor) -> torch.Tensor:
        agent = training.agent
        if training.library == "skrl":
            values, _ = agent.critic_1.act({"observations": observations, "taken_actions": actions}, role="critic_1")
            return values
        return agent.model.critic(observations, actions)[0]

    with torch.no_grad():
        wide = value(wider, torch.cat([seen, more], dim=1))
        torch.testing.assert_close(
            wide, value(trained, seen), msg="new observations have no effect, actions keep theirs"
        )


class Wider(ToyEnv):
    """The toy, with one more observation."""

    def __init__(self) -> None:
        super().__init__()
        self.single_observation_space = gym.spaces.Dict({"policy": gym.spaces.Box(-np.inf, np.inf, (3,))})

    @property
    def obs_buf(self) -> dict[str, torch.Tensor]:
        return {"policy": torch.cat([super().obs_buf["policy"], self.position.unsqueeze(1)], dim=1)}


@each_learner
@pytest.mark.parametrize("interrupted", [1, 4])
def test_a_training_resumed_with_its_replay_memory_is_the_same_training(
    library: str, algorithm: str, interrupted: int, tmp_path: Path
) -> None:
    recipe: dict[str, Any] = {
        "iterations": 6,
        "observation_normalization": True,
        "random_steps": 20,
        "library": library,
    }
    whole = Training(algorithm, tmp_path / "whole", **recipe)
    whole.train()
    begun = Training(algorithm, tmp_path / "begun", **recipe)
    begun.heard.stop_after = interrupted
    begun.train()
    resumed = Training(algorithm, tmp_path / "resumed", **recipe)
    resumed.go_on_from(begun)
    resumed.train()
    require_same_learner(resumed, whole)
    assert {**begun.heard.figures, **resumed.heard.figures} == whole.heard.figures


@each_learner
def test_a_replay_memory_that_does_not_fit_is_refused_before_it_is_allocated(
    library: str, algorithm: str, tmp_path: Path
) -> None:
    setting = dialect_of(library, algorithm).overrides["replay_steps"]
    with pytest.raises(UserError, match=rf"{setting} 10{{12}}: .* are free, .*: there is room for \d+ steps"):
        Training(algorithm, tmp_path, library=library, replay_steps=10**12)


class Privileged(ToyEnv):
    """The toy, which has observations for the value function alone."""

    def __init__(self) -> None:
        super().__init__()
        box = gym.spaces.Box(-np.inf, np.inf, (1,))
        self.single_observation_space = gym.spaces.Dict({**self.single_observation_space.spaces, "critic": box})

    @property
    def obs_buf(self) -> dict[str, torch.Tensor]:
        return {**super().obs_buf, "critic": self.position.unsqueeze(1)}


@each_learner
def test_the_accounted_memory_is_what_is_held(
    library: str, algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe: dict[str, Any] = {"library": library, "env": Privileged()}
    held = Training(algorithm, tmp_path / "first", **recipe).trainer.replay.nbytes
    monkeypatch.setattr("ledger_lab.runners.replay_plan.usable_bytes", lambda: math.ceil(held / 0.9))
    Training(algorithm, tmp_path / "second", **recipe)
    monkeypatch.setattr("ledger_lab.runners.replay_plan.usable_bytes", lambda: math.ceil(held / 0.9) - 2)
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


@each_learner
def test_the_agent_hash_ignores_device_length_and_name(library: str, algorithm: str) -> None:
    from ledger_lab.runners.configs import config_sha256

    def hashed(**changed: Any) -> str:
        learner = adapter(algorithm, library)
        agent_cfg = learner.prepare(translated(algorithm, library, **changed), "cpu", seed=5)
        return config_sha256(agent_cfg, learner.circumstances)

    own = hashed()
    assert hashed(max_iterations=9, save_interval=3, experiment_name="another") == own
    assert len({own, hashed(action_bound=3.0), hashed(updates_per_step=3), hashed(warm_up_steps=21)}) == 4


def test_an_update_that_would_come_after_the_end_is_refused() -> None:
    def require(warm_up_steps: int, update_every: int = 1, *, overlaps: bool = False) -> None:
        agent_cfg = translated("sac", "skrl", warm_up_steps=warm_up_steps, update_every=update_every, horizon=16)
        learner = adapter("sac")
        plan = learner.plan(learner.prepare(agent_cfg, "cpu", max_iterations=3)).replay
        assert plan is not None
        plan.require_update(48, overlaps=overlaps)

    require(47)
    require(32, 16)
    require(31, 16, overlaps=True)  # due after 32 steps, made beside the next one
    for late, every, overlaps in ((48, 1, False), (47, 1, True), (32, 16, True)):
        with pytest.raises(UserError, match=f"learning_starts {late}: the training ends after 48 steps, before its"):
            require(late, every, overlaps=overlaps)


@each_learner
def test_a_configuration_without_the_length_of_its_training_can_be_loaded(library: str, algorithm: str) -> None:
    """Its run may have been longer than its configuration says (``--max_iterations``)."""
    learner = adapter(algorithm, library)
    agent_cfg = learner.prepare(translated(algorithm, library, warm_up_steps=10**6), "cpu")
    plan = learner.plan(agent_cfg)
    assert plan.replay is not None
    with pytest.raises(UserError, match="before its first update: lower it, or raise --max_iterations"):
        plan.replay.require_update(plan.max_iterations * plan.horizon, overlaps=False)


@each_learner
def test_a_training_may_begin_without_random_actions_and_warm_up(library: str, algorithm: str) -> None:
    learner = adapter(algorithm, library)
    agent_cfg = learner.prepare(translated(algorithm, library, warm_up_steps=0, random_steps=0), "cpu")
    require_values(agent_cfg, learner)


def test_fewer_steps_than_an_iteration_has_are_refused() -> None:
    learner, agent_cfg = adapter("sac"), translated("sac", horizon=16)
    agent_cfg["trainer"]["timesteps"] = 15
    with pytest.raises(UserError, match="agent.trainer.timesteps 15: an iteration has 16 steps"):
        learner.plan(learner.prepare(agent_cfg, "cpu"))


@each_algorithm
@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("models.separate", False, "agent.models.separate: .* has separate networks: set it to true"),
        (
            "models.target_critic_1.class",
            "GaussianMixin",
            "'GaussianMixin': LedgerLab supports only DeterministicMixin",
        ),
        (
            "models.policy.output",
            "tanh(ACTIONS)",
            "models.policy.output 'tanh.ACTIONS.': LedgerLab supports only ACTIONS",
        ),
        ("models.critic_1.output", "tanh(ONE)", "models.critic_1.output 'tanh.ONE.': LedgerLab supports only ONE"),
    ],
)
def test_networks_that_would_be_misread_are_refused_in_a_training(
    algorithm: str, path: str, value: object, complaint: str
) -> None:
    agent_cfg, learner = translated(algorithm), adapter(algorithm)
    put(agent_cfg, path, value)
    prepared = learner.prepare(agent_cfg, "cpu")  # so that an earlier run can be loaded
    with pytest.raises(UserError, match=complaint):
        learner.require_learnable(prepared)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("initial_log_std", 3.0, "initial_log_std 3.0: must lie between -5 and 2"),
        ("initial_log_std", "wide", "initial_log_std 'wide': must lie between -5 and 2"),
        ("max_log_std", 1.0, "agent.models.policy.max_log_std: the limits are always -5 and 2: leave it out"),
    ],
)
def test_standard_deviations_that_sac_would_cut_are_refused(name: str, value: object, complaint: str) -> None:
    agent_cfg = translated("sac")
    agent_cfg["models"]["policy"][name] = value
    prepared = adapter("sac").prepare(agent_cfg, "cpu")
    with pytest.raises(UserError, match=complaint):
        adapter("sac").require_learnable(prepared)


@each_algorithm
@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("action_bound", None, "agent.action_bound None: .*have no bounds"),
        ("agent.batch_size", 0, "agent.agent.batch_size 0"),
        ("agent.learning_starts", -1, "agent.agent.learning_starts -1"),
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


@each_learner
def test_a_memory_that_still_refills_goes_on_refilling_after_another_interruption(
    library: str, algorithm: str, tmp_path: Path
) -> None:
    def first_update(training: Training) -> int:
        return training.agent.cfg.learning_starts if library == "skrl" else training.trainer._first_update

    begun, refilling, again = (
        Training(algorithm, tmp_path / str(number), library=library, iterations=4) for number in range(3)
    )
    begun.heard.stop_after = 1
    begun.train()
    refilling.trainer.restore(begun.trainer.state())
    assert first_update(refilling) == 16 + 20
    again.trainer.replay.restore_newest(begun.trainer.replay.newest())
    again.trainer.restore(refilling.trainer.state())
    assert first_update(again) == 16 + 20, "counted from the first interruption"
