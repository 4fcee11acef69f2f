"""Replays of the panel before find what lasts longer than an episode, with the real policy and to the horizon."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.panels import Cell, load_panel
from tests.fakes.held_out import Trial, runtime, still, task_cfg, thorough
from tests.fakes.lasting_cartpole import SUCCESS, lasting
from tests.panels.test_leaks import balance

PANEL = replace(load_panel("cartpole_v1"), seeds=tuple(range(7)), episode_length_s=1.5, hold_s=0.5)
TRAINING = 5


_runtime = runtime("LedgerLab-Cartpole")


def play(trial: Trial, panels: int, training: int = TRAINING, before: int = 0) -> list[Any]:
    """Return what is wrong with each of some panels, while training slots act at random and reset."""
    from ledger_lab.panels.view import TrainingView

    found = []
    with trial.simulation(1, training, seed=7) as (env, slots), torch.inference_mode():
        view = TrainingView(env, slots)
        view.reset()
        view.episode_length_buf = torch.arange(training) * 60  # resets of training slots within the panel
        for _ in range(before):
            view.step(torch.randn(training, slots.action_count))
        for _ in range(panels):
            slots.begin([trial.policy])
            while not slots.idle:
                view.step(torch.randn(training, slots.action_count))
            (outcomes,) = slots.outcomes()
            found.append(slots.invalid(outcomes))
        covered = {"gravity", "joint_position of 'robot'", "joint_velocity of 'robot'", "body_mass of 'robot'"}
        assert covered <= set(slots.starts(0))
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
        thorough("written_object", "its start: joint_velocity of 'robot'"),
        thorough("last_end", "its start: joint_velocity of 'robot'"),
        ("success_by_level", "its success"),
        ("latch", "its observations"),
        thorough("latched_success", "its success"),
    ],
)
def test_replays_find_what_lasts_longer_than_an_episode(kind: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rehearsal, which finds some of these before a panel counts."""
    from ledger_lab.panels import slots

    monkeypatch.setattr(slots.Rehearsal, "require_own_episodes", lambda *_: None)
    first, second = play(trial(kind), 2)
    assert first is None
    assert second is not None and named in second


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        thorough("last_end", "reset event 'surprise' changes joint_velocity of 'robot' at the start"),
        ("written_object", "reset event 'surprise' changes joint_velocity of 'robot' at the start"),
        ("latched_success", "success function"),
    ],
)
def test_a_rehearsal_finds_what_a_task_keeps_without_a_training(kind: str, named: str) -> None:
    with pytest.raises(UserError, match=named):
        play(trial(kind), 1)


def test_replays_are_spread_over_cells_and_rotate() -> None:
    from ledger_lab.panels.replays import ReplaySlots

    panel = replace(PANEL, cells=(Cell("a"), Cell("b"), Cell("c")), seeds=tuple(range(20)))
    slots = ReplaySlots(panel, 12)
    assert sorted(set(slots.cells)) == ["a", "b", "c"] and slots.count == 12
    seen: set[int] = set()
    for _ in range(20):
        chosen = slots.chosen
        assert len(set(chosen)) == 12
        assert [panel.episodes[each][0] for each in chosen] == slots.cells
        seen |= set(chosen)
        slots._panels += 1
    assert seen == set(range(60))
    assert ReplaySlots(replace(PANEL, seeds=(1, 2)), 40).count == 2, "an episode is replayed once at most"


@pytest.mark.parametrize("kind", ["level_of_the_term", "default_poses"])
def test_what_the_task_declares_does_not_last(kind: str) -> None:
    """A curriculum changes what held-out slots have for themselves, so their replays are equal."""
    assert play(trial(kind), 3) == [None, None, None]


def test_contacts_that_the_engine_drops_beside_wild_slots_hide_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.panels.rehearsal import Rehearsal
    from ledger_lab.panels.slots import HeldOutSlots

    played, dropped = Rehearsal._played, [False]

    def drop_contacts(self: Any, *arguments: Any, wild: bool) -> Any:
        seen = played(self, *arguments, wild=wild)
        dropped[0] = wild and arguments[0] > 0
        return {name: value + 1.0 for name, value in seen.items()} if dropped[0] else seen

    monkeypatch.setattr(Rehearsal, "_played", drop_contacts)
    monkeypatch.setattr(HeldOutSlots, "overflowed", lambda _: dropped[0])
    with pytest.raises(UserError, match="the training has changed what held-out episodes share"):
        play(trial("early_gain"), 2, before=50)


@pytest.mark.parametrize("kind", ["early_gain", *map(thorough, ("early_help", "early_reward"))])
def test_what_changes_once_before_the_first_panel_is_found(kind: str) -> None:
    """Replays don't find it: all panels of the training are equal, but evaluate.py plays other episodes."""
    with pytest.raises(UserError, match="the training has changed what held-out episodes share"):
        play(trial(kind), 2, before=50)
