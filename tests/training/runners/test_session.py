"""The environment that a run trains in is the one that its task registers, and nothing is between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest

from ledger_lab.errors import UserError
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
