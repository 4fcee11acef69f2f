"""Held-out episodes of direct-workflow tasks, in real simulations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.panels import load_panel
from tests.fakes.held_out import WARP, Trial, runtime, task_cfg, thorough

CARTPOLE = "LedgerLab-Cartpole-Direct"
PANEL = replace(load_panel("cartpole_direct_v1"), seeds=tuple(range(7)), episode_length_s=1.0, hold_s=0.5)

_runtime = runtime(CARTPOLE)


def acting(width: int, gain: float) -> Any:
    """Return a policy that mixes what it sees."""

    def act(observations: Any) -> torch.Tensor:
        seen = observations["policy"]
        mix = torch.linspace(-gain, gain, seen.shape[1] * width).reshape(seen.shape[1], width)
        return torch.tanh(seen @ mix)

    return act


def trial(task: str, width: int = 1, *overrides: str, seconds: float = 1.0) -> Trial:
    """Return the trial of a task on a panel of seven seeds, with a success function that any robot can meet."""
    from ledger_lab.tasks.registry import registered_tasks
    from tests.fakes.direct_tasks import register_direct_tasks

    registered_tasks()
    register_direct_tasks()
    panel = replace(PANEL, task=task, episode_length_s=seconds)
    if width > 1:
        panel = replace(panel, success_function=f"{__name__}:is_alive", success_params={})
    return Trial(panel, acting(width, 0.2), acting(width, -0.4), lambda: task_cfg(task, *overrides))


def is_alive(env: Any) -> torch.Tensor:
    """Tell which robots have not fallen."""
    alive: torch.Tensor = ~env.reset_terminated
    return alive


@pytest.mark.parametrize(
    ("task", "width", "overrides"),
    [
        (CARTPOLE, 1, ()),
        ("Test-Ant-Direct", 8, ()),
        thorough(CARTPOLE, 1, (WARP,)),
        thorough("Test-Humanoid-Direct", 21, ()),
        ("Test-Noisy-Direct", 1, ()),
        ("Test-Drawing-Direct", 1, ()),
        ("Test-Spread-Direct", 1, ()),
    ],
)
def test_episodes_of_a_direct_task_depend_on_their_seeds_alone(
    task: str, width: int, overrides: tuple[str, ...]
) -> None:
    expected = trial(task, width, *overrides).alone()
    assert len(set(expected.fingerprint)) == len(PANEL.seeds), "each seed is an episode of its own"
    assert trial(task, width, *overrides).in_company() == expected


@pytest.mark.parametrize(
    ("task", "complaint"),
    [
        (
            "Test-Mean-Direct",
            "held-out episodes depend on more than their seeds: .* differ: observation 'observations'",
        ),
        ("Test-Rare-Direct", "_get_dones of the task draws random numbers|drew random numbers for all environments"),
        ("Test-Windy-Direct", "joint_position of 'cartpole' in step 2. This depends on other environments"),
        ("Test-Loose-Direct", "joint_damping of 'cartpole' in step 1. This depends on other environments"),
        ("Test-Level-Direct", "the training has changed what held-out episodes share with it"),
        ("Test-Blending-Direct", "observation group 'extra' in step 1. This depends on other environments"),
        ("Test-Mask-Direct", "the task resets environments without _reset_idx"),
        ("Test-Discrete-Direct", "the actions of the task are Discrete: choose a task with Box actions"),
        ("Test-Critic-Direct", "_get_observations of the task returns no 'critic'"),
    ],
)
def test_a_direct_task_whose_episodes_depend_on_each_other_is_refused_by_name(task: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        trial(task).in_company(places=1)


def test_a_direct_task_that_changes_what_all_episodes_share_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="changed env.level, which training and held-out episodes share"):
        trial("Test-Harder-Direct").in_company(places=1)


def test_a_resumed_direct_task_keeps_what_outlasts_episodes() -> None:
    from ledger_lab.panels.view import TrainingView
    from ledger_lab.training.state import SimulationState

    harder = trial("Test-Harder-Direct")
    with harder.simulation(1, 5) as (env, slots), torch.inference_mode():
        view = TrainingView(env, slots)
        view.reset()
        for _ in range(20):
            view.step(torch.randn(5, 1))
        env.unwrapped.level = 2.0
        saved, ages = SimulationState(env, view).take(), view.episode_length_buf.clone()
    with harder.simulation(1, 5) as (env, slots), torch.inference_mode():
        view = TrainingView(env, slots)
        assert SimulationState(env, view).put(saved) is None
        assert (env.unwrapped.level, env.unwrapped.common_step_counter) == (2.0, 20)
        assert torch.equal(view.episode_length_buf, ages)


@pytest.mark.parametrize("ids", [None, [0, 1]])
def test_a_direct_task_may_reset_its_environments_by_any_ids(ids: list[int] | None) -> None:
    with trial("Test-Any-Ids-Direct").simulation(1, 5) as (env, _):
        base = env.unwrapped
        base.episode_length_buf[:] = 7
        base._reset_idx(ids)
        assert base.episode_length_buf[:5].tolist() == ([0] * 5 if ids is None else [0, 0, 7, 7, 7])


def test_settings_of_a_direct_task_are_its_own_whatever_they_are_called() -> None:
    from ledger_lab.panels.checks import require_seedable
    from ledger_lab.training.runners.description import describe_simulation, scoring_code

    def described(**settings: Any) -> dict[str, Any]:
        cfg = task_cfg(CARTPOLE)
        for name, value in settings.items():
            setattr(cfg, name, value)
        require_seedable(cfg)
        return {**describe_simulation(cfg)["environment_sha256"], "code": scoring_code(PANEL, cfg)}

    other = described(actions=3, commands=["x"], observations="all", terminations=[0.1], motion=Path("a"), law=is_alive)
    assert other.keys() == described().keys()
    assert other["task"] != described()["task"]
    assert __name__ in other["code"], "of a function that a setting names"
    here = Path(__file__)
    assert described(motion=here) == described(motion=str(here))


def test_the_cells_of_a_direct_task_perturb_it() -> None:
    from ledger_lab.panels.scoring import score_policies

    robust = load_panel("cartpole_direct_robust_v1")
    cells = trial(CARTPOLE)
    cells = replace(cells, panel=replace(robust, seeds=robust.seeds[:2], episode_length_s=2.5, hold_s=0.1))
    with cells.simulation(1) as (_, slots):
        slots.reset()
        (score,) = score_policies(slots, [acting(1, 0.02)])
    found = score.outcomes
    each = zip(found.cell, found.seed, found.fingerprint, strict=True)
    of_cell = {cell: prints for cell, seed, prints in each if seed == robust.seeds[0]}
    assert len(of_cell) == len(robust.cells)
    assert [cell for cell, prints in of_cell.items() if prints == of_cell["nominal"]] == ["nominal"]
