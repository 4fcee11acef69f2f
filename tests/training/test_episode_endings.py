"""Training episodes are counted by the termination that ended them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ledger_lab.training.loop import EpisodeEndings


class Manager:
    """A termination manager whose terms fire as they are told."""

    def __init__(self, slots: int, **time_outs: bool) -> None:
        self._time_outs = time_outs
        self._term_dones = torch.zeros(slots, len(time_outs), dtype=torch.bool)
        self.active_terms = list(time_outs)

    def get_term_cfg(self, name: str) -> Any:
        return SimpleNamespace(time_out=self._time_outs[name])

    def compute(self) -> torch.Tensor:
        return self._term_dones.any(dim=1)

    def fire(self, fired: list[list[int]]) -> torch.Tensor:
        self._term_dones[:] = torch.tensor(fired, dtype=torch.bool)
        return self.compute()


def made(manager: Manager, training_slots: int) -> EpisodeEndings:
    env: Any = SimpleNamespace(unwrapped=SimpleNamespace(termination_manager=manager))
    return EpisodeEndings(env, training_slots)


def test_the_first_term_counts_and_held_out_slots_do_not() -> None:
    manager = Manager(5, time_out=True, fell=False, flew=False)
    endings = made(manager, training_slots=3)
    assert endings.time_outs == {"time_out"}
    with endings.counting():
        done = manager.fire([[1, 1, 0], [0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 0, 1]])
        assert done.tolist() == [True, True, False, True, True]
        manager.fire([[0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 1]])
        assert endings.take() == {"time_out": 1, "fell": 2, "flew": 0}
        with torch.inference_mode():  # libraries step the environment in it
            manager.fire([[0, 0, 1]] * 5)
        assert endings.take() == {"time_out": 0, "fell": 0, "flew": 3}, "since the last call"
    manager.fire([[1, 0, 0]] * 5)
    assert endings.take() == {"time_out": 0, "fell": 0, "flew": 0}


def test_episodes_that_unstable_physics_ends_are_counted_by_that_name() -> None:
    manager: Any = Manager(4, time_out=True, fell=False)
    manager.unstable = SimpleNamespace(last=torch.zeros(4, dtype=torch.bool))
    endings = made(manager, training_slots=3)
    with endings.counting():
        manager.unstable.last[:] = torch.tensor([True, True, False, True])
        manager.fire([[0, 0], [0, 1], [1, 0], [0, 1]])
        manager.unstable.last[:] = False
        manager.fire([[0, 0], [0, 1], [0, 0], [0, 0]])
    assert endings.take() == {"unstable": 2, "time_out": 1, "fell": 1}
    assert endings.take() == {"unstable": 0, "time_out": 0, "fell": 0}


def test_a_task_without_terminations_ends_no_episode() -> None:
    manager = Manager(2)
    endings = made(manager, 2)
    with endings.counting():
        manager.compute()
    assert endings.take() == {} and endings.time_outs == frozenset()


def test_a_term_with_the_name_unstable_is_added_to_what_the_physics_tells() -> None:
    manager: Any = Manager(2, unstable=False)
    manager.unstable = SimpleNamespace(last=torch.tensor([True, False]))
    endings = made(manager, training_slots=2)
    with endings.counting():
        manager.fire([[0], [1]])
    assert endings.take() == {"unstable": 2}


@pytest.mark.gpu
def test_no_step_waits_for_the_device() -> None:
    manager = Manager(4, time_out=True, fell=False)
    manager._term_dones = manager._term_dones.cuda()
    endings = made(manager, 3)
    with endings.counting():
        torch.cuda.set_sync_debug_mode("error")
        try:
            manager.compute()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert endings.take() == {"time_out": 0, "fell": 0}
