"""Hooks report what happens to held-out slots, and a listener decides."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch

from tests.fakes.held_out import runtime, task_cfg
from tests.fakes.leaky_cartpole import leaky

TRAINING, HELD_OUT = 3, 4


class Recorder:
    """A listener that resets all held-out slots when it is told to, and records what it hears."""

    def __init__(self) -> None:
        self.resets_next = self.resets_by_hand = False
        self.heard: list[tuple[Any, ...]] = []

    def on_terminations(self) -> bool:
        self.heard.append(("terminations",))
        return self.resets_next

    def on_reset(self, slots: Any) -> None:
        self.heard.append(("reset", slots.tolist()))

    def scoring_conditions(self) -> AbstractContextManager[None]:
        return nullcontext()

    def on_training_reset(self, ids: torch.Tensor) -> None:
        pass

    def on_interval_events(self, dt: float) -> None:
        self.heard.append(("interval",))

    def own_draws(self, rows: Any, what: str) -> AbstractContextManager[object]:
        self.heard.append(("own draws", rows.tolist(), what))
        return nullcontext()

    def step(self, env: Any) -> list[tuple[Any, ...]]:
        """Step, and return what was heard of it."""
        self.heard = []
        env.step(torch.zeros(TRAINING + HELD_OUT, 1))
        return self.heard


_runtime = runtime("LedgerLab-Cartpole")


def test_hooks_report_events_of_held_out_slots_alone_until_they_are_removed() -> None:
    from ledger_lab.panels.hooks import Hooks
    from ledger_lab.training.runners.session import environment

    cfg = leaky(leaky(task_cfg("LedgerLab-Cartpole"), "command"), "interval_event")
    cfg.scene.num_envs = TRAINING + HELD_OUT
    listener = Recorder()
    with environment("LedgerLab-Cartpole", cfg) as env, torch.inference_mode():
        env.reset()
        base = env.unwrapped
        length = base.episode_length_buf
        with ExitStack() as undo:
            base.sim.consume_reset_request = lambda: listener.resets_by_hand
            undo.callback(delattr, base.sim, "consume_reset_request")
            Hooks(base, TRAINING).attach(undo, listener)  # type: ignore[arg-type]
            assert listener.step(env) == [("terminations",), ("interval",)]

            length[:] = base.max_episode_length - 1
            assert listener.step(env) == [("terminations",), ("interval",)], "held-out slots do not end by themselves"
            assert length.tolist() == [0] * TRAINING + [base.max_episode_length] * HELD_OUT

            listener.resets_next = True
            assert listener.step(env)[:2] == [("terminations",), ("reset", [0, 1, 2, 3])]
            listener.resets_next = False

            listener.resets_by_hand = True
            assert ("reset", [0, 1, 2, 3]) in listener.step(env), "a user's reset reaches all slots"
            listener.resets_by_hand = False

            time_left = base.command_manager._terms["number"].time_left
            time_left[:] = 0.0
            assert ("own draws", [0, 1, 2, 3], "command 'number'") in listener.step(env)
        assert listener.step(env) == []
