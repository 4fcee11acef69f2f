"""OvPhysX: held-out slots keep their parameters, and a gravity that all environments share is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from isaaclab.managers import CurriculumTermCfg

from ledger_lab.errors import UserError
from ledger_lab.panels import load_panel
from tests.fakes.changing_cartpole import changing
from tests.fakes.held_out import Trial, parameters, runtime, still, task_cfg

pytestmark = pytest.mark.thorough  # test_declared.py and test_leaks.py show the same on Newton
PANEL = replace(load_panel("cartpole_v1"), seeds=tuple(range(3)), episode_length_s=0.5, hold_s=0.1)


def lighter(env: Any, env_ids: Any) -> None:
    """Change gravity."""
    env.sim.physics_manager.set_gravity((0.0, 0.0, -1.0))


def cfg(*changes: str) -> Any:
    """Return the configuration of a cart-pole with changes."""
    found = changing(task_cfg("LedgerLab-Cartpole", "physics=ovphysx"), *changes)
    if not changes:
        found.curriculum["lighter"] = CurriculumTermCfg(func=lighter)
    return found


_runtime = runtime("LedgerLab-Cartpole", "physics=ovphysx")


def test_held_out_slots_keep_the_damping_that_is_declared() -> None:
    from ledger_lab.panels.view import TrainingView

    trial = Trial(PANEL, still, still, lambda: cfg("joint_damping", "mass at interval"))
    with trial.simulation(1, 4) as (env, slots), torch.inference_mode():
        view = TrainingView(env, slots)
        view.reset()
        damping = env.unwrapped.scene["robot"].data.joint_damping.torch
        found = []
        for _ in range(2):
            slots.begin([still])
            while not slots.idle:
                view.episode_length_buf[:] = view.max_episode_length - 1
                view.step(torch.zeros(4, 1))
            found.append(
                {name: parameters(slots)[name] for name in ("body_mass of 'robot'", "joint_damping of 'robot'")}
            )
            slots.outcomes()
        before, after = found
        assert torch.allclose(before["joint_damping of 'robot'"], after["joint_damping of 'robot'"])
        assert not torch.allclose(damping[:4], damping[4:5]), "training slots have another damping"
        assert torch.allclose(before["body_mass of 'robot'"], after["body_mass of 'robot'"], rtol=1e-5)


def test_a_curriculum_cannot_change_the_gravity_that_all_environments_share() -> None:
    with pytest.raises(
        UserError, match="a curriculum or an event changed gravity, which training and held-out episodes share"
    ):
        Trial(PANEL, still, still, cfg).in_company()
