"""On height fields, an episode depends on its seed alone only where Newton is deterministic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from ledger_lab.panels import load_panel
from tests.fakes.held_out import WARP, Trial, task_cfg

TASK = "LedgerLab-Velocity-Rough-AnymalC"
PANEL = replace(load_panel("velocity_rough_anymal_c_v1"), seeds=tuple(range(16)), episode_length_s=0.6)

_DETERMINISTIC = "env.sim.physics.deterministic=true"
_NEWTONS_CONTACTS = "env.sim.physics.solver_cfg.use_mujoco_contacts=false"


def fidget(observations: Any) -> torch.Tensor:
    """Move all twelve joints by what is seen."""
    return torch.tanh(observations["policy"][:, :12])


def settle(observations: Any) -> torch.Tensor:
    """Hold the default pose."""
    return torch.zeros(len(observations["policy"]), 12)


@pytest.mark.slow  # all physics kernels are then compiled again, which takes minutes
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("asked", "promised"), [("true", "bitwise"), ("false", "statistical")])
def test_other_slots_change_an_episode_only_if_its_exactness_is_statistical(asked: str, promised: str) -> None:
    from ledger_lab.panels.physics import exactness
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.session import simulation_app

    def cfg() -> Any:
        return task_cfg(TASK, WARP, f"env.sim.physics.deterministic={asked}")

    registered_tasks()
    trial = Trial(PANEL, fidget, settle, cfg)
    assert exactness(cfg()) == promised
    with simulation_app(cfg(), {"device": "cpu"}):
        alone = trial.alone()
        assert len(set(alone.fingerprint)) == len(PANEL.seeds)
        assert (trial.in_company(23) == alone) is (promised == "bitwise")


@pytest.mark.parametrize(
    ("overrides", "promised"),
    [
        ([], "bitwise"),
        (["physics=newton_mujoco"], "bitwise"),
        (["env.sim.device=cuda:0"], "statistical"),
        ([_NEWTONS_CONTACTS], "statistical"),
        ([_NEWTONS_CONTACTS, _DETERMINISTIC], "bitwise"),
        ([_NEWTONS_CONTACTS, _DETERMINISTIC, "env.sim.physics.solver_cfg.use_mujoco_cpu=true"], "statistical"),
        (["physics=newton_kamino"], "statistical"),
    ],
)
def test_exactness_is_bitwise_only_where_that_is_proven(overrides: list[str], promised: str) -> None:
    from ledger_lab.panels.physics import exactness
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs

    registered_tasks()
    cfg, _ = resolve_configs("LedgerLab-Cartpole", "rsl_rl", ["env.sim.device=cpu", *overrides])
    assert exactness(cfg) == promised
