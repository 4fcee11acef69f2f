"""The adapter corrects SKRL's behaviour, and accepts SKRL's own configurations."""

from __future__ import annotations

import functools
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.phases import PhaseClock
from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.training.runners.adapter import load_adapter
from ledger_lab.training.runners.skrl.dialect import DIALECT
from tests.fakes.observers import Heard
from tests.fakes.toy_env import ToyEnv


class Watched(ToyEnv):
    """The toy, which keeps how it is reset, and has observations for the value function alone."""

    def __init__(self) -> None:
        super().__init__()
        self.resets: list[dict[str, Any]] = []
        box = gym.spaces.Box(-np.inf, np.inf, (1,))
        self.single_observation_space = gym.spaces.Dict({**self.single_observation_space.spaces, "critic": box})

    @property
    def obs_buf(self) -> dict[str, torch.Tensor]:
        return {**super().obs_buf, "critic": self.position.unsqueeze(1)}

    def reset(self, **how: Any) -> Any:
        self.resets.append(how)
        return super().reset(**how)


def trainer(cfg: dict[str, Any], run_dir: Path, heard: Heard | None = None, env: ToyEnv | None = None) -> Any:
    adapter = load_adapter("skrl")
    prepared = adapter.prepare(cfg, "cpu", seed=5, max_iterations=2)
    clock = PhaseClock(time.perf_counter_ns())
    heard = heard or Heard()
    built: Any = adapter.trainer(env or Watched(), prepared, run_dir, clock, heard.record)  # type: ignore[arg-type]
    built.train = functools.partial(built.train, heard.on_iteration)
    return built


def test_importing_skrl_in_one_of_several_processes_starts_no_collectives() -> None:
    program = (
        "import os, torch\n"
        "import ledger_lab.training.runners.skrl.adapter as adapter\n"
        "assert not torch.distributed.is_initialized()\n"
        "assert os.environ['WORLD_SIZE'] == '2'\n"
        "assert adapter.config.torch.is_distributed\n"
        "assert (adapter.config.torch.rank, adapter.config.torch.world_size) == (1, 2)\n"
    )
    several = {**os.environ, "WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, env=several, timeout=120)


def test_a_training_on_the_cpu_touches_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, zeros = set(), torch.zeros

    def counted(*shape: Any, **how: Any) -> torch.Tensor:
        made.add(str(how.get("device") or "cpu"))
        return zeros(*shape, **how)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "zeros", counted)
    training = trainer(DIALECT.translate(CARTPOLE), tmp_path)
    training._wrapper.step(zeros(training._wrapper.num_envs, 1))
    assert made == {"cpu"}
    assert training._agent.device == torch.device("cpu")


def test_all_processes_begin_with_the_networks_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are copied tensor by tensor; a pickled tensor would be read on the GPU that it comes from."""
    from skrl import config

    sent: list[tuple[int, ...]] = []
    monkeypatch.setattr(config.torch, "_is_distributed", True)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "broadcast", lambda tensor, src: sent.append((*tensor.shape, src)))
    agent = trainer(DIALECT.translate(CARTPOLE), tmp_path)._agent
    networks = {id(model): model for model in agent.models.values()}.values()
    assert sent == [(*tensor.shape, 0) for model in networks for tensor in model.state_dict().values()]


def test_a_timeout_bootstraps_from_the_last_observation_of_the_episode(tmp_path: Path) -> None:
    built = trainer(DIALECT.translate(CARTPOLE), tmp_path)
    recorded: list[dict[str, torch.Tensor]] = []
    library = built._library["record_transition"]
    built._library["record_transition"] = lambda **each: (recorded.append(each), library(**each))
    built.train()
    ended = 0
    for each, after in zip(recorded, recorded[1:], strict=False):
        timeouts = each["truncated"].squeeze(1)
        assert torch.equal(each["next_observations"][timeouts], each["observations"][timeouts])
        assert torch.equal(each["next_observations"][~timeouts], after["observations"][~timeouts])
        assert torch.equal(each["next_states"][timeouts], each["states"][timeouts])
        ended += int(timeouts.sum())
    assert ended >= 8 * 3


def test_a_timeout_is_a_termination_if_the_horizon_is_part_of_the_task(tmp_path: Path) -> None:
    heard, env = Heard(), Watched()
    env.cfg.is_finite_horizon = True
    built = trainer(DIALECT.translate(CARTPOLE), tmp_path, heard, env)
    recorded: list[dict[str, torch.Tensor]] = []
    library = built._library["record_transition"]
    built._library["record_transition"] = lambda **each: (recorded.append(each), library(**each))
    built.train()
    assert sum(int(each["terminated"].sum()) for each in recorded) >= 8 * 3
    assert not any(each["truncated"].any() for each in recorded), "nothing is added for what would come after"
    assert heard.figures[2]["mean_episode_steps"] <= 16


def test_steps_skipped_in_half_precision_do_not_end_a_training(tmp_path: Path) -> None:
    heard = Heard()
    built = trainer(DIALECT.translate(CARTPOLE), tmp_path, heard)
    built._agent.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    built.train()
    assert built._agent.scaler.get_scale() < 2.0**126, "the first steps had gradients beyond all bounds"
    assert all(math.isfinite(value) for figures in heard.figures.values() for value in figures.values())


def test_isaac_labs_own_configurations_are_trained_and_judged(tmp_path: Path) -> None:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs

    registered_tasks()
    _, cfg = resolve_configs("Isaac-Ant", "skrl", ["agent.agent.rollouts=8", "agent.agent.mini_batches=2"])
    heard, env = Heard(), Watched()
    built = trainer(cfg, tmp_path, heard, env)
    assert built._agent.policy is built._agent.value, "one network with two heads"
    built.train()
    assert list(heard.figures) == [1, 2]
    adapter = load_adapter("skrl")
    policy = adapter.load_policy(heard.checkpoints[2], env, adapter.prepare(cfg, "cpu"))  # type: ignore[arg-type]
    _, outputs = built._agent.act(env.obs_buf["policy"], env.obs_buf["critic"], timestep=0, timesteps=1)
    assert torch.equal(policy(env.obs_buf), outputs["mean_actions"])


def test_the_value_function_can_see_more_than_the_policy(tmp_path: Path) -> None:
    cfg = DIALECT.translate(CARTPOLE)
    cfg["models"]["value"]["network"][0]["input"] = "concatenate([OBSERVATIONS, STATES])"
    built = trainer(cfg, tmp_path)
    built.train()
    seen = {role: built._agent.models[role].net_container[0].in_features for role in ("policy", "value")}
    assert seen == {"policy": 2, "value": 3}


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("agent.class", "SAC", r"agent.agent.class 'SAC': LedgerLab supports only PPO"),
        (
            "models.policy.class",
            "CategoricalMixin",
            r"'CategoricalMixin': LedgerLab supports only GaussianMixin",
        ),
        ("trainer.class", "StepTrainer", r"agent.trainer.class 'StepTrainer'"),
        ("models", None, r"agent.models is missing: a configuration of SKRL needs this group"),
        ("memory.memory_size", 16, r"agent.memory.memory_size 16: must be -1, or equal to agent.agent.rollouts, 32"),
    ],
)
def test_settings_that_cannot_be_trained_are_refused(path: str, value: object, complaint: str) -> None:
    cfg: Any = DIALECT.translate(CARTPOLE)
    *groups, name = path.split(".")
    node = cfg
    for group in groups:
        node = node[int(group)] if isinstance(node, list) else node[group]
    node[int(name) if isinstance(node, list) else name] = value
    with pytest.raises(UserError, match=complaint):
        load_adapter("skrl").prepare(cfg, "cpu")


def test_a_kl_threshold_is_refused_in_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.training.runners.skrl import adapter as skrl_adapter

    cfg = DIALECT.translate(CARTPOLE)
    cfg["agent"]["kl_threshold"] = 0.1
    adapter = skrl_adapter.SkrlAdapter()
    assert adapter.prepare(cfg, "cpu")["agent"]["kl_threshold"] == 0.1
    monkeypatch.setattr(skrl_adapter.config.torch, "_is_distributed", True)
    with pytest.raises(UserError, match=r"kl_threshold 0.1: a process that ends its update early would"):
        adapter.prepare(cfg, "cpu")
