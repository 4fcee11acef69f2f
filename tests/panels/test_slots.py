"""Held-out episodes: their labels and order, whether they are valid, and what a learner sees of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from isaaclab.managers import TerminationTermCfg

from ledger_lab.ledger import Outcomes
from ledger_lab.panels import Cell, load_panel
from tests.fakes.held_out import WARP, Trial, runtime, still, task_cfg
from tests.panels.test_leaks import balance

PANEL = replace(load_panel("cartpole_v1"), seeds=tuple(range(8)), episode_length_s=3.0)


def push(observations: Any) -> torch.Tensor:
    """Leave the rail."""
    return torch.ones(observations["policy"].shape[0], 1)


def broken(observations: Any) -> torch.Tensor:
    """Ask for a force that is no number."""
    return torch.full((observations["policy"].shape[0], 1), float("nan"))


def trial(panel: Any = PANEL) -> Trial:
    """Return the trial with MuJoCo-Warp; MuJoCo's C code has another label for a state that is no number."""
    return Trial(panel, balance, still, lambda: task_cfg("LedgerLab-Cartpole", WARP))


_runtime = runtime("LedgerLab-Cartpole")


@pytest.fixture(scope="module")
def together() -> list[Outcomes]:
    """Return outcomes of policies in rounds of two, and of one policy with fresh seeds and with those of the panel."""
    from ledger_lab.panels.scoring import score_policies

    with trial().simulation(2) as (_, slots), torch.inference_mode():
        slots.reset()
        found = [score.outcomes for score in score_policies(slots, [still, balance, broken, push, push, still])]
        for panel in (PANEL.proof("run", 1), PANEL):
            slots.begin([balance], panel)
            while not slots.idle:
                slots.step(torch.zeros(0, 1))
            found += slots.outcomes()
    return found


def test_every_end_has_its_label(together: list[Outcomes]) -> None:
    alive, balanced, not_a_number, pushed, *_ = together
    assert set(alive.ended_by) == {"horizon"}
    assert alive.successes == 0, "a cart that stands still survives, and its pole hangs"
    assert set(alive.steps) == {180}
    assert balanced.successes > 0
    assert set(pushed.ended_by) == {"cart_out_of_bounds"} and pushed.successes == 0
    assert max(pushed.steps) < 180
    assert set(not_a_number.ended_by) == {"non_finite"}
    assert not_a_number.successes == sum(not_a_number.success_any) == 0
    assert set(not_a_number.episode_return) == {None}
    for outcome in together:
        assert all(now <= best for now, best in zip(outcome.success, outcome.success_any, strict=True))


def test_a_policy_with_non_finite_actions_does_not_affect_the_next_policies(together: list[Outcomes]) -> None:
    assert together[4:6] == [together[3], together[0]]


def test_fresh_seeds_are_other_episodes_of_the_same_panel(together: list[Outcomes]) -> None:
    *_, fresh, again = together
    assert again == together[1]
    assert not set(fresh.fingerprint) & set(again.fingerprint)
    assert tuple(fresh.seed) == PANEL.proof("run", 1).seeds


def after(env: Any, steps: int, right: bool = False) -> torch.Tensor:
    """End episodes of some length, or only those whose cart is to the right."""
    due = env.episode_length_buf >= steps
    return due & (env.scene["robot"].data.joint_pos.torch[:, 0] > 0.0) if right else due


def test_a_time_out_before_the_horizon_is_what_the_panel_says() -> None:
    """Two terms are time-outs, and one fails episodes; the earlier time-out comes first in the configuration."""
    from ledger_lab.panels.scoring import score_policies
    from ledger_lab.panels.slots import HeldOutSlots
    from ledger_lab.training.runners.session import environment, held_out_config

    fail = replace(PANEL, seeds=tuple(range(24)))
    judge, short = replace(fail, early_time_out="judged"), replace(fail, episode_length_s=2.5)
    cfg = held_out_config(task_cfg(PANEL.task), len(fail.episodes))
    cfg.terminations.early = TerminationTermCfg(func=after, params={"steps": 150}, time_out=True)
    cfg.terminations.right = TerminationTermCfg(func=after, params={"steps": 150, "right": True})
    found = []
    with environment(PANEL.task, cfg) as env:
        for panel in (fail, judge, short):
            with HeldOutSlots(env, panel).attached() as slots:
                slots.reset()
                (score,) = score_policies(slots, [balance])
            found.append(score.outcomes)
    failed, judged, at_horizon = found
    assert set(at_horizon.ended_by) == {"horizon", "right", "cart_out_of_bounds"}
    assert failed.ended_by == judged.ended_by == [{"horizon": "early"}.get(end, end) for end in at_horizon.ended_by]
    assert failed.fingerprint == judged.fingerprint
    assert failed.successes == 0
    assert judged.success == at_horizon.success and any(judged.success)


def test_a_learner_sees_only_training_slots() -> None:
    from isaaclab.envs import ManagerBasedRLEnv

    from ledger_lab.panels.view import TrainingView

    with trial().simulation(1, training=8) as (env, slots), torch.inference_mode():
        view = TrainingView(env, slots)
        assert isinstance(view, ManagerBasedRLEnv) and view.unwrapped is view
        observations, _ = view.reset()
        assert (view.num_envs, observations["policy"].shape) == (8, (8, 4))
        view.episode_length_buf = torch.full((8,), 299)
        held_out = env.unwrapped.episode_length_buf[8:]
        assert not held_out.any(), "the learner's random episode lengths don't reach held-out slots"
        slots.begin([push])
        observations, rewards, terminated, truncated, extras = view.step(torch.zeros(8, 1))
        assert {len(rewards), len(terminated), len(truncated), len(observations["policy"])} == {8}
        assert truncated.all()
        assert extras["log"]["Episode_Termination/time_out"] == 1.0
        while not slots.idle:
            *_, extras = view.step(torch.zeros(8, 1))
        assert extras["log"]["Episode_Termination/cart_out_of_bounds"] == 0.0, "all held-out carts left the rail"


def test_dropped_constraints_make_a_score_invalid_and_name_the_setting_to_raise() -> None:
    from ledger_lab.panels.perturbations import read_perturbations
    from ledger_lab.panels.scoring import score_policies

    def cfg() -> Any:
        small = task_cfg("LedgerLab-Cartpole", WARP)
        small.sim.physics.solver_cfg.njmax = 1
        return small

    rubbing = Cell("rubbing", read_perturbations("test", {"joint_friction": {"joints": ".*", "add": 1.0}}))
    panel = replace(PANEL, cells=(rubbing,), seeds=tuple(range(5)))
    with Trial(panel, push, still, cfg).simulation(1) as (_, slots):
        slots.reset()
        (score,) = score_policies(slots, [push])
    assert score.invalid is not None and "raise env.sim.physics.solver_cfg.njmax from 1 to at least 2" in score.invalid
    assert set(score.outcomes.ended_by) == {"capacity"}
    assert score.outcomes.successes == 0
