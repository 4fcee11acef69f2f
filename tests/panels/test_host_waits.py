"""A step of held-out slots does not make the host wait for a GPU. The CPU shows which operations would."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import ledger_lab.panels
from ledger_lab.panels import Cell, load_panel
from ledger_lab.panels.perturbations import read_perturbations
from ledger_lab.panels.slots import first_held_out
from ledger_lab.panels.streams import DrawWatch, OwnDraws, SlotStreams
from ledger_lab.panels.transfers import to_device
from tests.fakes.held_out import WARP, Trial, runtime, still, task_cfg
from tests.fakes.host_waits import host_waits
from tests.fakes.leaky_cartpole import leaky

TRAINING = 6
CELL = {
    "action_delay": {"steps": [0, 2]},
    "push": {"velocity": [-0.5, 0.5], "interval_s": [0.1, 0.3], "joints": "slider_to_cart"},
    "observation_noise": {"std": {"joint_pos": 0.02}},
}
PANEL = replace(
    load_panel("cartpole_v1"),
    seeds=tuple(range(4)),
    cells=(Cell("nominal"), Cell("late", read_perturbations("test", CELL))),
    episode_length_s=2.0,
    hold_s=0.5,
)


_runtime = runtime("LedgerLab-Cartpole")


def busy() -> Any:
    """Return a cart-pole with noise, drawing terms, interval events, and commands that all change in the same step."""
    cfg = task_cfg("LedgerLab-Cartpole", WARP)
    for leak in ("command", "interval_event", "observation_noise", "random_observation", "action_noise"):
        cfg = leaky(cfg, leak)
    cfg.commands.number.resampling_time_range = (0.7, 0.7)
    return cfg


def test_what_makes_the_host_wait_is_noticed() -> None:
    rows, there, square = torch.zeros(3), torch.tensor([0, 1]), torch.eye(3)
    with host_waits(sys.modules[__name__]) as waits:
        rows.index_fill_(0, there, 0.0)
        rows[there] = rows[there] + 1.0
        torch.where(rows > 0.0, rows, 0.0)
        torch.linalg.solve_ex(square, square)
    assert not waits
    with host_waits(sys.modules[__name__]) as waits:
        rows[there] = 0.0
        rows[[0, 1]]
        rows[rows > 0.0]
        bool(rows.any())
        rows.cpu()
        torch.linalg.solve(square, square)
        torch.multinomial(rows + 1.0, 1)
    noticed = {what.rpartition(" in ")[0] for what in waits}
    host = {"number of the host", "index of the host", "index by a mask", "is_nonzero", "cpu", "solve", "multinomial"}
    assert noticed >= host - {"is_nonzero"} and noticed & {"is_nonzero", "_local_scalar_dense"}


def test_a_step_asks_the_device_for_nothing() -> None:
    from ledger_lab.panels.view import TrainingView

    with Trial(PANEL, still, still, busy).simulation(1, TRAINING) as (env, slots), torch.inference_mode():
        assert first_held_out(env.unwrapped) == TRAINING
        view, training = TrainingView(env, slots), torch.zeros(TRAINING, 1)
        view.reset()
        slots.begin([still])
        view.step(training)
        resets, resamples = 0, 0
        for step in range(100):
            command = env.unwrapped.command_manager.get_term("number")
            before = command.command_counter.clone()
            if step % 2:
                view.episode_length_buf[step % TRAINING] = view.max_episode_length - 1
            with host_waits(ledger_lab.panels) as waits:
                *_, truncated, _ = view.step(training)
            resets += bool(truncated.any())
            resampled = bool((command.command_counter - before)[TRAINING:].any())
            resamples += resampled
            if not resampled and step > 0:
                # Each follows a question of Isaac Lab: which episodes end, which slots reset or get new commands.
                assert {what.partition(" in ")[0] for what in waits} <= {"cpu", "is_nonzero"}
                assert sum(waits.values()) <= 3
        assert resets > 20 and resamples == 2, "both kinds of steps were seen"
        assert not slots.idle


def test_values_go_to_a_gpu_through_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Pinned:
        def to(self, device: torch.device, non_blocking: bool) -> str:
            asked.append((device, non_blocking))
            return "there"

    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: Pinned())
    assert to_device([1.0, 2.0], "cuda:1") == "there"
    assert asked == [(torch.device("cuda:1"), True)]
    assert to_device([1, 2], "cpu", torch.float32).tolist() == [1.0, 2.0]


def test_draws_are_noticed_without_reading_the_states_of_all_generators(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, read, state = DrawWatch(), Counter[str](), np.random.get_state

    def counted() -> Any:
        read["numpy"] += 1
        return state()

    monkeypatch.setattr(np.random, "get_state", counted)
    for _ in range(100):
        torch.rand(3)
        watch.forget()
        assert not watch.drawn()
    assert not read
    draws = {"torch": lambda: torch.rand(1), "numpy.random": np.random.rand, "Python's random": random.random}
    for name, draw in draws.items():
        draw()
        assert watch.drawn() == [name]
        watch.forget()
        assert watch.drawn() == []


def test_draws_with_parameters_per_slot_ask_the_device_for_nothing() -> None:
    """The numbers are those that the host would compute, in double precision."""
    mean, std, share = torch.rand(5), torch.rand(5), torch.rand(5)
    slots, keys = np.arange(-2, 3), np.arange(3, dtype=np.uint64)

    def drawn(draw: Callable[[], torch.Tensor]) -> torch.Tensor:
        streams = SlotStreams(3)
        streams.restart(np.arange(3), keys)
        with host_waits(ledger_lab.panels) as waits, OwnDraws(streams, slots, "a test"):
            values = draw()[2:]
        assert not waits
        return values

    plain, uniform = SlotStreams(3), SlotStreams(3)
    for streams in (plain, uniform):
        streams.restart(np.arange(3), keys)
    normal, even = plain.normal(np.arange(3), 1)[:, 0], uniform.uniform(np.arange(3), 1)[:, 0]
    expected = mean[2:].numpy() + std[2:].numpy() * normal
    assert torch.equal(drawn(lambda: torch.normal(mean, std)), torch.as_tensor(expected, dtype=torch.float32))
    shifted = mean[2:].numpy() + 0.5 * normal
    assert torch.equal(drawn(lambda: torch.normal(mean, 0.5)), torch.as_tensor(shifted, dtype=torch.float32))
    heads = torch.as_tensor(even < share[2:].numpy())
    assert torch.equal(drawn(lambda: torch.bernoulli(share)).bool(), heads)
    assert torch.equal(drawn(lambda: torch.empty(5).bernoulli_(share)).bool(), heads)
    assert torch.equal(
        drawn(lambda: torch.bernoulli(torch.zeros(5), 0.3)), drawn(lambda: torch.empty(5).bernoulli_(0.3))
    )
    assert drawn(lambda: torch.bernoulli(torch.zeros(5), 1.0)).all()
