"""Held-out episodes: their labels and order, whether they are valid, and what a learner sees of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger import Outcomes
from ledger_lab.panels import Cell, load_panel
from tests.fakes.held_out import Trial, still, task_cfg
from tests.panels.test_leaks import balance

PANEL = replace(load_panel("cartpole_v1"), seeds=tuple(range(24)))


def push(observations: Any) -> torch.Tensor:
    """Leave the rail."""
    return torch.ones(observations["policy"].shape[0], 1)


def broken(observations: Any) -> torch.Tensor:
    """Ask for a force that is no number."""
    return torch.full((observations["policy"].shape[0], 1), float("nan"))


def trial(panel: Any = PANEL) -> Trial:
    return Trial(panel, balance, still, lambda: task_cfg("LedgerLab-Cartpole"))


@pytest.fixture(scope="module", autouse=True)
def _runtime() -> Iterator[None]:
    from ledger_lab.runners.session import simulation_app
    from ledger_lab.tasks.registry import registered_tasks

    registered_tasks()
    with simulation_app(task_cfg("LedgerLab-Cartpole"), {"device": "cpu"}):
        yield


@pytest.fixture(scope="module")
def together() -> list[Outcomes]:
    """Return outcomes of four policies in one round."""
    from ledger_lab.panels.scoring import score_policies

    with trial().simulation(4) as (_, slots):
        slots.reset()
        return [score.outcomes for score in score_policies(slots, [still, balance, push, broken])]


def test_every_end_has_its_label(together: list[Outcomes]) -> None:
    alive, balanced, pushed, not_a_number = together
    assert set(alive.ended_by) == {"horizon"}
    assert alive.successes == 0, "a cart that stands still survives, and its pole hangs"
    assert set(alive.steps) == {300}
    assert balanced.successes > 0
    assert set(pushed.ended_by) == {"cart_out_of_bounds"} and pushed.successes == 0
    assert max(pushed.steps) < 300
    assert set(not_a_number.ended_by) == {"non_finite"}
    assert not_a_number.successes == sum(not_a_number.success_any) == 0
    assert set(not_a_number.episode_return) == {None}
    for outcome in together:
        assert all(now <= best for now, best in zip(outcome.success, outcome.success_any, strict=True))


def test_a_policy_with_non_finite_actions_does_not_affect_the_next_policies(together: list[Outcomes]) -> None:
    from ledger_lab.panels.scoring import score_policies

    with trial().simulation(2) as (_, slots):
        slots.reset()
        scores = score_policies(slots, [broken, push, push, still, balance])
    assert [score.outcomes for score in scores[1:]] == [together[2], together[2], together[0], together[1]]


def test_fresh_seeds_are_other_episodes_of_the_same_panel(together: list[Outcomes]) -> None:
    fresh = PANEL.confirmation("run", 1)
    with trial().simulation(1) as (_, slots), torch.inference_mode():
        slots.reset()
        found = []
        for panel in (fresh, PANEL):
            slots.begin([balance], panel)
            while not slots.idle:
                slots.step(torch.zeros(0, 1))
            found += slots.outcomes()
    assert found[1] == together[1]
    assert not set(found[0].fingerprint) & set(found[1].fingerprint)
    assert tuple(found[0].seed) == fresh.seeds


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


def predicate_panel(name: str) -> Any:
    """Return the panel with another success function."""
    return replace(PANEL, success_function=f"tests.panels.test_slots:{name}", success_params={})


def number(env: Any) -> torch.Tensor:
    return env.episode_length_buf


def three_values(env: Any) -> torch.Tensor:
    return torch.ones(3, dtype=torch.bool)


def average(env: Any) -> torch.Tensor:
    height = env.scene["robot"].data.joint_pos.torch[:, 1]
    return height > height.mean()


def first(env: Any) -> torch.Tensor:
    height = env.scene["robot"].data.joint_pos.torch[:, 1]
    return height >= height[0]


def shifted(env: Any) -> torch.Tensor:
    height = env.scene["robot"].data.joint_pos.torch[:, 1]
    return torch.cat([height[1:], height[:1]]) > 0


def regrouped(env: Any) -> torch.Tensor:
    position = env.scene["robot"].data.joint_pos.torch
    return position[:, 1] > position.reshape(-1).mean()


def lucky(env: Any) -> torch.Tensor:
    return torch.rand(env.num_envs) > 0.5


def better_than_most(env: Any) -> torch.Tensor:
    height = env.scene["robot"].data.joint_pos.torch[:, 1].numpy()
    return torch.as_tensor(height > np.quantile(height, 0.3))


def better_than_the_best_but_three(env: Any) -> torch.Tensor:
    height = env.scene["robot"].data.joint_pos.torch[:, 1].tolist()
    return torch.tensor([each >= sorted(height)[-4] for each in height])


def better_than_the_mean_of_this_step(env: Any, seen: dict[str, float] = {}) -> torch.Tensor:  # noqa: B006 - remembers
    height = env.scene["robot"].data.joint_pos.torch[:, 1].numpy()
    if seen.get("step") != env.common_step_counter:
        seen |= {"step": env.common_step_counter, "mean": float(height.mean())}
    return torch.as_tensor(height > seen["mean"])


def alternating(env: Any, calls: list[int] = []) -> torch.Tensor:  # noqa: B006 - the list remembers
    calls.append(1)
    return torch.full((env.num_envs,), len(calls) % 2 == 0)


def raising(env: Any) -> torch.Tensor:
    return env.scene["no such thing"]


def everything_at_once(env: Any) -> torch.Tensor:
    position, velocity = env.scene["robot"].data.joint_pos.torch, env.scene["robot"].data.joint_vel.torch
    slow = torch.stack((position[:, 1].abs() < 1.0, velocity.norm(dim=1) < 2.0)).all(dim=0)
    return slow & (position.unsqueeze(1).repeat(1, 3, 1).reshape(-1, 2).norm(dim=-1).reshape(-1, 3).amax(dim=1) < 5.0)


def test_a_success_function_may_combine_what_belongs_to_one_environment() -> None:
    with trial(predicate_panel("everything_at_once")).simulation(1):
        pass


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("number", r"returns torch.int64 of shape \(64,\): it must return torch.bool of shape \(num_envs,\)"),
        ("three_values", r"returns torch.bool of shape \(3,\)"),
        ("average", r"mixes environments: torch.mean combines"),
        ("first", r"mixes environments: torch.select"),
        ("shifted", r"mixes environments: torch.slice"),
        ("regrouped", r"mixes environments: torch.mean"),
        ("lucky", r"mixes environments: torch.rand"),
        ("better_than_most", r"mixes environments: beside other environments, it has another value for the same state"),
        ("better_than_the_best_but_three", r"mixes environments: beside other environments"),
        ("better_than_the_mean_of_this_step", r"mixes environments: beside other|gives two answers for the same state"),
        ("alternating", r"gives two answers for the same state"),
        ("raising", r"fails in LedgerLab-Cartpole: KeyError"),
    ],
)
def test_an_unusable_success_function_is_refused_in_one_line(name: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as raised, trial(predicate_panel(name)).simulation(1):
        pass
    assert "\n" not in str(raised.value)


def all_are_low(env: Any) -> torch.Tensor:
    height = env.scene["robot"].data.joint_pos.torch[:, 1].numpy()
    return torch.as_tensor((height > 0) & (np.abs(height).max() < 2.9))


def better_than_training(env: Any) -> torch.Tensor:
    height = env.scene["robot"].data.joint_pos.torch[:, 1].numpy()
    return torch.as_tensor(height > height[:4].mean())


def early(env: Any) -> torch.Tensor:
    height = env.scene["robot"].data.joint_pos.torch[:, 1].numpy()
    return torch.as_tensor((height > 0) & (env.common_step_counter < 1000))


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("all_are_low", "mixes environments: beside other environments"),
        ("better_than_training", "mixes environments: beside other environments"),
        ("early", "gives two answers for the same state"),
    ],
)
def test_a_success_function_depends_neither_on_the_training_nor_on_its_age(name: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint), trial(predicate_panel(name)).simulation(1, training=4):
        pass


def test_dropped_constraints_make_a_score_invalid_and_name_the_setting_to_raise() -> None:
    from ledger_lab.panels.perturbations import read_perturbations
    from ledger_lab.panels.scoring import score_policies

    def cfg() -> Any:
        small = task_cfg("LedgerLab-Cartpole")
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
