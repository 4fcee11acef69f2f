"""A resumed training keeps what outlasts an episode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from ledger_lab.panels import load_panel
from ledger_lab.panels.view import TrainingView
from tests.fakes.held_out import Trial, runtime, still, task_cfg
from tests.fakes.leaky_cartpole import leaky

TRAINING = 6
PANEL = replace(load_panel("cartpole_v1"), seeds=tuple(range(4)), episode_length_s=1.5, hold_s=0.5)


_runtime = runtime("LedgerLab-Cartpole")


def changing() -> Any:
    """Return a cart-pole with a curriculum, on terrain with levels."""
    cfg = leaky(leaky(task_cfg("LedgerLab-Cartpole"), "curriculum"), "terrain")
    cfg.curriculum = {**leaky(task_cfg("LedgerLab-Cartpole"), "curriculum").curriculum, **cfg.curriculum}
    cfg.episode_length_s = 2.0
    return cfg


@contextmanager
def simulation() -> Iterator[tuple[Any, Any, Any]]:
    """Open a simulation of it, and say what takes its state."""
    from ledger_lab.training.state import SimulationState

    with Trial(PANEL, still, still, changing).simulation(1, TRAINING) as (env, slots), torch.inference_mode():
        view = TrainingView(env, slots)
        view.reset()
        yield view, slots, SimulationState(env, view)


def steps(view: Any, count: int) -> None:
    """Act at random for a while."""
    for _ in range(count):
        view.step(torch.randn(TRAINING, 1))


def test_a_resumed_training_keeps_what_outlasts_episodes_which_begin_anew() -> None:
    with simulation() as (view, slots, state):
        slots.begin([still])
        steps(view, 130)
        slots.begin([still]) if slots.idle else None
        saved, expected, drawn = state.take(), outlasting(view), torch.rand(3)
        assert expected[0] == 130 and expected[2] > 2.0 and int(expected[3].sum()) > 0
    with simulation() as (view, slots, state):
        assert outlasting(view)[2] < expected[2]
        saved["places"]["env.nowhere", "here"] = saved["places"]["env.nowhere", "there"] = 1
        streams: list[torch.Tensor] = []
        reset = view.reset
        view.reset = lambda: streams.append(torch.rand(3)) or reset()
        assert state.put(saved) == "env.nowhere.here could not be restored, nor 1 more"
        assert torch.equal(streams[0], drawn), "random streams continue"
        for found, wanted in zip(outlasting(view), expected, strict=True):
            assert torch.equal(torch.as_tensor(found), torch.as_tensor(wanted))
        assert slots.idle
        slots.begin([still])
        steps(view, 2)
        assert not slots.idle


def outlasting(view: Any) -> tuple[int, torch.Tensor, float, torch.Tensor]:
    """Return steps, ages of training episodes, the command's scale from the curriculum, and terrain levels."""
    levels = view.scene.terrain.terrain_levels[:TRAINING].clone()
    scale = view.command_manager.get_term("number").cfg.scale
    return view.common_step_counter, view.episode_length_buf.clone(), scale, levels
