"""Replays of the panel before find what lasts longer than an episode, with the real policy and to the horizon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.panels import load_panel
from tests.fakes.held_out import Trial, still, task_cfg
from tests.fakes.lasting_cartpole import SUCCESS, lasting
from tests.panels.test_leaks import balance

PANEL = replace(load_panel("cartpole_v1"), seeds=tuple(range(7)), episode_length_s=1.5, hold_s=0.5)
TRAINING = 5


@pytest.fixture(scope="module", autouse=True)
def _runtime() -> Iterator[None]:
    from ledger_lab.runners.session import simulation_app
    from ledger_lab.tasks.registry import registered_tasks

    registered_tasks()
    with simulation_app(task_cfg("LedgerLab-Cartpole"), {"device": "cpu"}):
        yield


def play(trial: Trial, panels: int, training: int = TRAINING) -> list[Any]:
    """Return what is wrong with each of some panels, while training slots act at random and reset."""
    from ledger_lab.panels.view import TrainingView

    found = []
    with trial.simulation(1, training, seed=7) as (env, slots), torch.inference_mode():
        view = TrainingView(env, slots)
        view.reset()
        view.episode_length_buf = torch.arange(training) * 60  # resets of training slots within the panel
        for _ in range(panels):
            slots.begin([trial.policy])
            while not slots.idle:
                view.step(torch.randn(training, slots.action_count))
            (outcomes,) = slots.outcomes()
            found.append(slots.invalid(outcomes))
    return found


def trial(kind: str) -> Trial:
    """Return the trial on a cart-pole in which something lasts."""
    panel = PANEL
    if kind in SUCCESS:
        function = SUCCESS[kind]
        name = getattr(function, "__name__", "latched_success")
        panel = replace(PANEL, success_function=f"tests.fakes.lasting_cartpole:{name}", success_params={})
    return Trial(panel, balance, still, lambda: lasting(task_cfg("LedgerLab-Cartpole"), kind))


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("level_of_the_environment", "its start: joint_velocity of 'robot'"),
        ("level_of_the_term", "its start: joint_velocity of 'robot'"),
        ("written_object", "its start: joint_velocity of 'robot'"),
        ("default_poses", "its start: joint_position of 'robot'"),
        ("success_by_level", "its success"),
        ("latch", "its return"),
        ("latched_success", "its success"),
        ("cached_range", "reset event 'cached'"),
        ("last_end", "reset event 'surprise'"),
    ],
)
def test_what_lasts_longer_than_an_episode_is_found(kind: str, named: str) -> None:
    try:
        first, second = play(trial(kind), 2)
    except UserError as refused:
        found = str(refused)
    else:
        found = second or first or "nothing"
    print("FOUND", kind, found)
    assert named in found
