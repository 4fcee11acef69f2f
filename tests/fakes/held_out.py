"""The same held-out episodes under different circumstances."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from ledger_lab.ledger import Outcomes
from ledger_lab.panels import Panel


def thorough(*values: Any) -> Any:
    """Return a case of a parametrized test that only the thorough suite runs."""
    return pytest.param(*values, marks=pytest.mark.thorough)


def still(observations: Any) -> torch.Tensor:
    """Do nothing; actions of one number."""
    return torch.zeros(observations["policy"].shape[0], 1)


@dataclass(frozen=True)
class Trial:
    """A policy that takes a panel in simulations that have only the episodes in common."""

    panel: Panel
    policy: Callable[[Any], torch.Tensor]
    other: Callable[[Any], torch.Tensor]
    """Policy in all other held-out slots."""
    cfg: Callable[[], Any]
    """Makes the task's configuration."""

    @contextmanager
    def simulation(self, places: int, training: int = 0, seed: int = 3) -> Iterator[tuple[Any, Any]]:
        """Open a simulation with held-out slots."""
        from ledger_lab.panels.slots import HeldOutSlots
        from ledger_lab.training.runners.session import environment, held_out_config, recorded_physics

        cfg = held_out_config(self.cfg(), places * len(self.panel.episodes), training)
        cfg.seed = seed
        with (
            environment(self.panel.task, cfg) as env,
            recorded_physics(env),
            HeldOutSlots(env, self.panel, training, places).attached() as slots,
        ):
            yield env, slots

    def alone(self) -> Outcomes:
        """Return outcomes in a simulation without other slots."""
        from ledger_lab.panels.scoring import score_policies

        with self.simulation(1) as (_, slots):
            slots.reset()
            (score,) = score_policies(slots, [self.policy])
        return score.outcomes

    def in_company(self, training: int = 5, places: int = 3) -> Outcomes:
        """Return outcomes in a second panel, in other slots, beside another policy and training slots at random."""
        from ledger_lab.panels.view import TrainingView

        with self.simulation(places, training, seed=11) as (env, slots), torch.inference_mode():
            view = TrainingView(env, slots)
            view.reset()
            torch.manual_seed(99)
            for last in (self.other, self.policy):
                slots.begin([*[self.other] * (places - 1), last])
                while not slots.idle:
                    view.step(torch.randn(training, slots.action_count))
            *_, outcomes = slots.outcomes()
        assert isinstance(outcomes, Outcomes)
        return outcomes


def parameters(slots: Any) -> dict[str, torch.Tensor]:
    """Return the physical parameters with which the held-out slots play now."""
    return {name: rows.clone() for name, rows in slots._declared.parameters.now()}


WARP = "physics=newton_mjwarp"
"""Choice of MuJoCo-Warp, for tests that are about it."""


def task_cfg(task: str, *overrides: str) -> Any:
    """Return a task's configuration on the CPU, with the default engine there unless the overrides name another."""
    return copy.deepcopy(_resolved(task, *overrides))  # as held_out_config() copies it


@functools.cache
def _resolved(task: str, *overrides: str) -> Any:
    """Resolve a task's configuration, which takes 0.1 s."""
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs

    registered_tasks()
    default = [] if any(each.startswith("physics=") for each in overrides) else ["physics=newton_mujoco"]
    cfg, _ = resolve_configs(task, "rsl_rl", [*default, *overrides])
    cfg.sim.device = "cpu"
    return cfg


def runtime(task: str, *overrides: str) -> Any:
    """Return a fixture that starts what simulations of a task need, for all tests of a module."""

    @pytest.fixture(scope="module", autouse=True)
    def started() -> Iterator[None]:
        from ledger_lab.training.runners.session import simulation_app

        with simulation_app(task_cfg(task, *overrides), {"device": "cpu"}):
            yield

    return started
