"""Simulations with many contacts continue bit for bit in the middle of episodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from ledger_lab.panels import Cell, load_panel
from ledger_lab.panels.perturbations import read_perturbations
from ledger_lab.panels.view import TrainingView
from tests.fakes.held_out import Trial, task_cfg

TRAINING = 6
"""Training slots, besides the two held-out slots."""
HEAVY = Cell("heavy", read_perturbations("test", {"mass": {"scale": 1.5}}))
"""The held-out slots have masses of their own."""


def walking(observations: Any) -> torch.Tensor:
    """Act by what is seen, always the same way; actions of as many numbers as the task's robot takes."""
    seen = observations["policy"]
    weights = torch.randn(seen.shape[1], walking.actions, generator=torch.Generator().manual_seed(1))
    return torch.tanh(0.1 * seen @ weights)


@contextmanager
def simulation(
    task: str, physics: str, panel_name: str, episode_steps: int, threads: int
) -> Iterator[tuple[Any, Any, Any]]:
    """Open a simulation of a task with short episodes, and say what takes its state."""
    from ledger_lab.training.simulation_state import simulation_state

    def cfg() -> Any:
        short = task_cfg(task, f"physics={physics}")
        short.episode_length_s = episode_steps * short.sim.dt * short.decimation
        if physics == "newton_mujoco":
            short.sim.physics.solver_cfg.cpu_threads = threads
        return short

    length_s = cfg().episode_length_s
    panel = replace(load_panel(panel_name), seeds=(0, 1), cells=(HEAVY,), episode_length_s=length_s, hold_s=0.0)
    with Trial(panel, walking, walking, cfg).simulation(1, TRAINING) as (env, slots), torch.inference_mode():
        walking.actions = slots.action_count
        view = TrainingView(env, slots)
        view.reset()
        yield view, slots, simulation_state(env, view, slots, [])


def steps(view: Any, slots: Any, count: int) -> list[torch.Tensor]:
    """Act at random for a while; return everything that is seen of it."""
    seen = []
    for _ in range(count):
        observations, rewards, terminated, truncated, _ = view.step(torch.randn(TRAINING, slots.action_count))
        seen += [*(group.clone() for group in observations.values()), rewards.clone(), terminated | truncated]
    return [*seen, slots._log._fingerprint.clone(), torch.rand(3)]


_ANYMAL = ("LedgerLab-Velocity-Flat-AnymalC", "velocity_flat_anymal_c_v1", 40)


@pytest.mark.parametrize(
    ("physics", "task", "panel", "episode_steps"),
    [
        ("newton_mujoco", *_ANYMAL),
        pytest.param("newton_mjwarp", *_ANYMAL, marks=pytest.mark.slow),
        pytest.param("newton_mjwarp", "LedgerLab-Lift-Cube-Franka", "lift_cube_franka_v1", 40, marks=pytest.mark.slow),
        pytest.param(
            *("newton_mjwarp", "LedgerLab-Navigation-Flat-AnymalC", "navigation_flat_anymal_c_v1", 12),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_contact_rich_training_continues_bit_for_bit_in_the_middle_of_episodes(
    physics: str, task: str, panel: str, episode_steps: int
) -> None:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.session import simulation_app

    registered_tasks()
    with simulation_app(task_cfg(task, f"physics={physics}"), {"device": "cpu"}):
        with simulation(task, physics, panel, episode_steps, 1) as (view, slots, state):
            assert state.inexact is None
            slots.begin([walking])
            steps(view, slots, episode_steps // 2)
            taking, saved = slots.taking, state.take()
            assert not slots.idle
            expected = steps(view, slots, episode_steps)
        with simulation(task, physics, panel, episode_steps, 2) as (view, slots, state):
            torch.manual_seed(99)
            assert state.put(saved) is None
            slots.go_on([walking], taking)
            found = steps(view, slots, episode_steps)
    assert [torch.equal(one, other) for one, other in zip(found, expected, strict=True)] == [True] * len(expected)
