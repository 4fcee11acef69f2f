"""rl_games' own rules for saving, stopping and seeding have no effect on a run."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from tests.fakes.observers import Heard
from tests.fakes.toy_env import ToyEnv

STOCK = "Isaac-Cartpole"
"""A task whose configuration for rl_games is a YAML file of Isaac Lab's."""


def resolved(*overrides: str, task: str = "LedgerLab-Cartpole") -> dict[str, Any]:
    """Return a task's configuration, not yet prepared."""
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs

    registered_tasks()
    _, agent_cfg = resolve_configs(task, "rl_games", list(overrides))
    return agent_cfg


def adapter() -> Any:
    from ledger_lab.training.runners.adapter import load_adapter

    return load_adapter("rl_games")


def trainer(
    run_dir: Path,
    heard: Heard,
    *overrides: str,
    seed: int = 5,
    task: str = "LedgerLab-Cartpole",
    num_envs: int = 8,
    **changes: Any,
) -> tuple[Any, ToyEnv, Any]:
    """Return a training on the toy, its environment and its configuration."""
    agent_cfg = resolved(*overrides, task=task)
    agent_cfg["params"]["config"] |= changes
    agent_cfg = adapter().prepare(agent_cfg, "cpu", seed=seed, max_iterations=3)
    env, clock = ToyEnv(num_envs), PhaseClock(time.perf_counter_ns(), base=Phase.UNATTRIBUTED)
    run_dir.mkdir(exist_ok=True)
    built = adapter().trainer(env, agent_cfg, run_dir, clock, heard.record)
    built.train = functools.partial(built.train, heard.on_iteration)
    return built, env, agent_cfg


def test_a_high_return_neither_ends_a_training_nor_names_a_checkpoint(tmp_path: Path) -> None:
    heard = Heard()
    training, _, _ = trainer(tmp_path, heard, score_to_win=-1000.0, save_best_after=0, save_frequency=1)
    training.train()
    assert list(heard.figures) == [1, 2, 3]
    assert heard.figures[3]["mean_return"] > -1000.0
    files = sorted(path.name for path in tmp_path.rglob("*.pth"))
    assert files == ["model_0.pth", "model_1.pth", "model_2.pth"], "the newest is the one with the highest number"
    assert not (tmp_path / "nn").exists()


@pytest.mark.parametrize(
    ("group", "name", "value", "complaint"),
    [
        ("config", "epochs_between_resets", 5, "agent.params.config.epochs_between_resets 5: .*: leave it out"),
        ("config", "max_frames", 9, "agent.params.config.max_frames 9: leave it out"),
        ("config", "clip_actions", True, "agent.params.env.clip_actions, which is infinite"),
        ("algo", "name", "a2c_discrete", "agent.params.algo.name 'a2c_discrete': only 'a2c_continuous'"),
    ],
)
def test_settings_that_cannot_be_trained_are_refused(group: str, name: str, value: object, complaint: str) -> None:
    agent_cfg = resolved()
    agent_cfg["params"][group][name] = value
    with pytest.raises(UserError, match=complaint):
        adapter().prepare(agent_cfg, "cpu")


def test_sequences_that_do_not_fill_a_horizon_are_refused() -> None:
    from ledger_lab.training.batch import plan_batch

    agent_cfg = adapter().prepare(resolved(), "cpu")
    agent_cfg["params"]["network"]["rnn"] = {"name": "gru", "units": 8, "layers": 1}
    plan_batch(adapter(), agent_cfg)
    agent_cfg["params"]["config"]["seq_length"] = 5
    with pytest.raises(UserError, match=r"the agent's configuration: seq_length 5 must divide horizon_length 32"):
        plan_batch(adapter(), agent_cfg)


@pytest.mark.parametrize("clip", [False, True], ids=["free", "clipped"])
def test_a_policy_acts_like_the_librarys_own_player(clip: bool, tmp_path: Path) -> None:
    from isaaclab_rl.rl_games import RlGamesVecEnvWrapper
    from rl_games.torch_runner import Runner

    heard, limits = Heard(), ["agent.params.env.clip_observations=2.0"]
    limits += ["agent.params.env.clip_actions=0.5"] if clip else []
    training, env, agent_cfg = trainer(tmp_path, heard, *limits, normalize_input=True, clip_actions=clip)
    training.train()
    policy = adapter().load_policy(heard.checkpoints[3], env, agent_cfg)

    wrapper = RlGamesVecEnvWrapper.from_agent_cfg(env, agent_cfg)  # type: ignore[arg-type]
    runner = Runner()
    runner.load(agent_cfg)
    runner.params["config"] |= {"num_actors": 8, "env_info": wrapper.get_env_info(), "vec_env": wrapper}
    player = runner.create_player()
    player.restore(str(heard.checkpoints[3]))
    player.has_batch_dimension = True

    env.position = torch.linspace(-9.0, 9.0, 8)
    theirs = player.get_action(wrapper._process_obs(env.obs_buf)["obs"], is_deterministic=True)
    ours = policy(env.obs_buf)
    torch.testing.assert_close(ours, theirs)
    clipped = policy({"policy": torch.tensor([[-2.0, 1.0]])})  # one row may be rounded otherwise than eight
    torch.testing.assert_close(ours[:1], clipped)
    assert not torch.allclose(clipped, policy({"policy": torch.tensor([[-1.0, 1.0]])}), atol=1e-4)
    assert not clip or ours.abs().max() <= 0.5


def test_a_configuration_of_isaac_lab_trains_as_it_is(tmp_path: Path) -> None:
    heard = Heard()
    training, env, agent_cfg = trainer(tmp_path, heard, task=STOCK, num_envs=512)
    training.train()
    assert list(heard.figures) == [1, 2, 3]
    assert heard.figures[3]["policy_loss"] < 0.0
    assert adapter().load_policy(heard.checkpoints[3], env, agent_cfg)(env.obs_buf).abs().max() <= 1.0
