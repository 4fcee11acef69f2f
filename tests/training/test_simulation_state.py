"""A rebuilt simulation continues from a saved state, for every kind of state that a task can have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from ledger_lab.panels import Cell, load_panel
from ledger_lab.panels.episodes import SlotState
from ledger_lab.panels.perturbations import read_perturbations
from ledger_lab.panels.view import TrainingView
from ledger_lab.training.runners.acting_module import ActingModule
from tests.fakes.changing_cartpole import changing
from tests.fakes.held_out import WARP, Trial, still, task_cfg
from tests.fakes.leaky_cartpole import leaky

TRAINING = 6
LATE = {
    "action_delay": {"steps": [0, 2]},
    "push": {"velocity": [-0.5, 0.5], "interval_s": [0.1, 0.3], "joints": "slider_to_cart"},
    "mass": {"bodies": "pole", "scale": [0.8, 1.2]},
}
PANEL = replace(
    load_panel("cartpole_v1"),
    seeds=tuple(range(4)),
    cells=(Cell("nominal"), Cell("late", read_perturbations("test", LATE))),
    episode_length_s=1.5,
    hold_s=0.5,
)
LEAKS = (
    *("startup_event", "curriculum", "interval_event", "observation_noise", "random_observation", "action_noise"),
    *("actuator_delay", "rare_reset_event", "terrain"),
)


@pytest.fixture(scope="module", autouse=True)
def _runtime() -> Iterator[None]:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.session import simulation_app

    registered_tasks()
    with simulation_app(task_cfg("LedgerLab-Cartpole"), {"device": "cpu"}):
        yield


def everything() -> Any:
    """Return a cart-pole in which everything is random at once."""
    cfg = task_cfg("LedgerLab-Cartpole", WARP)
    for leak in LEAKS:
        curricula = dict(getattr(cfg, "curriculum", None) or {})
        cfg = leaky(cfg, leak)
        cfg.curriculum = {**curricula, **(cfg.curriculum or {})}
    cfg.episode_length_s = 2.0
    return cfg


@contextmanager
def simulation(whole: bool, loop: Any, cfg: Any = everything) -> Iterator[tuple[Any, Any, Any]]:
    """Open a simulation of it, and say what takes its state."""
    from ledger_lab.training.simulation_state import simulation_state

    with Trial(PANEL, still, still, cfg).simulation(1, TRAINING) as (env, slots), torch.inference_mode():
        view = TrainingView(env, slots)
        view.reset()
        yield view, slots, simulation_state(env, view, slots, [(loop, ["sums"])] if whole else None)


def steps(view: Any, slots: Any, count: int) -> list[torch.Tensor]:
    """Act at random for a while; return everything that is seen of it."""
    seen = []
    for _ in range(count):
        observations, rewards, terminated, truncated, _ = view.step(torch.randn(TRAINING, 1))
        seen += [observations["policy"].clone(), rewards.clone(), terminated | truncated]
    return [*seen, slots._log._fingerprint.clone(), torch.rand(3)]


class Loop:
    """What a training loop carries along."""

    def __init__(self) -> None:
        self.sums = torch.zeros(TRAINING)


def test_a_restored_state_continues_episodes_bit_for_bit() -> None:
    first = Loop()
    with simulation(True, first) as (view, slots, state):
        assert state.inexact is None
        slots.begin([ActingModule(still, network=torch.nn.Linear(2, 1))])
        steps(view, slots, 70)
        first.sums += 3.0
        taking, saved = slots.taking, state.take()
        assert not slots.idle
        expected = steps(view, slots, 80)
    again = Loop()
    with simulation(True, again) as (view, slots, state):
        torch.manual_seed(99)
        assert state.put(saved) is None
        slots.go_on([still], taking)
        assert torch.equal(again.sums, first.sums)
        found = steps(view, slots, 80)
    assert [torch.equal(one, other) for one, other in zip(found, expected, strict=True)] == [True] * len(expected)


def test_a_restored_solver_knows_of_properties_that_changed_in_the_last_step() -> None:
    def heavy_at_reset() -> Any:
        return changing(task_cfg("LedgerLab-Cartpole"), "mass at reset")

    with simulation(True, Loop(), heavy_at_reset) as (view, slots, state):
        steps(view, slots, 5)
        view.episode_length_buf = torch.full((TRAINING,), 10_000)
        steps(view, slots, 1)
        saved = state.take()
        expected = steps(view, slots, 20)
    with simulation(True, Loop(), heavy_at_reset) as (view, slots, state):
        assert state.put(saved) is None
        found = steps(view, slots, 20)
    assert [torch.equal(one, other) for one, other in zip(found, expected, strict=True)] == [True] * len(expected)


def test_fresh_episodes_begin_if_a_value_cannot_be_restored() -> None:
    with simulation(True, Loop(), lambda: task_cfg("LedgerLab-Cartpole")) as (view, slots, state):
        running = torch.full_like(slots._log._state, SlotState.RUNNING)
        places = {
            ("slots", "_state"): "running",
            ("slots._log", "_state"): running,
            ("env.nowhere", "here"): 1,
            ("env.nowhere", "there"): 2,
        }
        missed = state.put({**state.take(), "places": places})
        assert missed == "env.nowhere.here could not be restored, nor 1 more"
        assert not slots.idle
        state.begin_fresh()
        assert slots.idle
        slots.begin([still])
        steps(view, slots, 2)
        assert not slots.idle


def test_values_that_outlast_episodes_are_restored_if_episodes_cannot_continue() -> None:
    with simulation(False, None) as (view, slots, state):
        assert state.inexact == "the networks have a memory of their episodes"
        steps(view, slots, 130)
        saved = state.take()
        expected = outlasting(view)
        assert expected[0] == 130 and expected[2] > 2.0 and int(expected[3].sum()) > 0
    with simulation(False, None) as (view, slots, state):
        assert outlasting(view)[2] < expected[2]
        assert state.put(saved) is None
        state.begin_fresh()
        for found, wanted in zip(outlasting(view), expected, strict=True):
            assert torch.equal(torch.as_tensor(found), torch.as_tensor(wanted))
        assert slots.idle
        steps(view, slots, 5)


def outlasting(view: Any) -> tuple[int, torch.Tensor, float, torch.Tensor]:
    """Return steps, ages of training episodes, the command's scale from the curriculum, and terrain levels."""
    levels = view.scene.terrain.terrain_levels[:TRAINING].clone()
    scale = view.command_manager.get_term("number").cfg.scale
    return view.common_step_counter, view.episode_length_buf.clone(), scale, levels


@pytest.mark.parametrize(
    ("physics", "device", "mujoco", "continues_episodes", "why"),
    [
        ("newton_mjwarp", "cpu", False, True, None),
        ("newton_mujoco", "cpu", False, True, None),
        ("newton_mjwarp", "cpu", False, False, "the networks have a memory of their episodes"),
        ("newton_mjwarp", "cuda:0", False, True, "on GPUs, only values that outlast an episode are saved"),
        ("newton_mjwarp", "cpu", True, True, "MuJoCo, which replaces MuJoCo-Warp here, does not expose its state"),
        ("ovphysx", "cpu", False, True, "ovphysx does not expose its state"),
    ],
)
def test_an_inexact_state_names_the_reason(
    physics: str, device: str, mujoco: bool, continues_episodes: bool, why: str | None
) -> None:
    from ledger_lab.training.simulation_state import why_inexact

    cfg = task_cfg("LedgerLab-Cartpole", f"physics={physics}")
    cfg.sim.device = device
    if mujoco:
        cfg.sim.physics.solver_cfg.use_mujoco_cpu = True
    assert why_inexact(cfg, continues_episodes=continues_episodes) == why
