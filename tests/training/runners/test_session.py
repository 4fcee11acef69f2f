"""The environment that a run trains in is the one that its task registers, and nothing is between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from ledger_lab.errors import UserError
from tests.conftest import script
from tests.fakes.held_out import task_cfg


class ScaledObservations(gym.Wrapper[Any, Any, Any, Any]):
    """Shows other observations than the environment computes."""

    def step(self, action: Any) -> Any:
        observations, *rest = self.env.step(action)
        return {name: 0.1 * group for name, group in observations.items()}, *rest


def scaled(cfg: Any) -> Any:
    """Return the environment of a cart-pole in a wrapper."""
    from isaaclab.envs import ManagerBasedRLEnv

    return ScaledObservations(ManagerBasedRLEnv(cfg))


@pytest.fixture
def registered() -> Iterator[str]:
    """The id of a task whose entry point returns a wrapper."""
    gym.register(id="Wrapped-Cartpole", entry_point=scaled, disable_env_checker=True)
    yield "Wrapped-Cartpole"
    del gym.registry["Wrapped-Cartpole"]


def test_a_task_in_a_wrapper_is_refused_by_name(registered: str) -> None:
    """Held-out policies would see what the environment computes, and learners what the wrapper shows."""
    from ledger_lab.training.runners.session import environment, simulation_app

    cfg = task_cfg("LedgerLab-Cartpole")
    cfg.scene.num_envs = 2
    with (
        simulation_app(cfg, {"device": "cpu"}),
        pytest.raises(UserError, match=f"{registered} comes in the wrapper {__name__}:ScaledObservations") as raised,
        environment(registered, cfg),
    ):
        pass
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("task", "physics", "why"),
    [("LedgerLab-Ant", "newton_mjwarp", "joint-wrench sensor"), ("LedgerLab-Cartpole", "newton_kamino", "Kamino")],
)
def test_physics_that_cannot_be_deterministic_is_refused_before_a_run_is_kept(
    task: str, physics: str, why: str, tmp_path: Path
) -> None:
    asked = ("--task", task, "--device", "cpu", "--num_envs", "4", "--no_eval", "--log_root", tmp_path)
    finished = script("train", *asked, f"physics={physics}", "env.sim.physics.deterministic=true")
    assert finished.returncode == 2, finished.stderr
    *_, last = (finished.stdout + finished.stderr).strip().splitlines()
    assert re.match(rf"error: env.sim.physics.deterministic: leave it out: .*{why}", last)
    assert not [*tmp_path.rglob("*.jsonl")]
