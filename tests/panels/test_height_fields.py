"""On height fields an episode is its seed's alone where Newton sorts the contacts, and only there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from ledger_lab.panels import load_panel
from tests.fakes.held_out import Exam, task_cfg

TASK = "LedgerLab-Velocity-Rough-AnymalC"
PANEL = replace(load_panel("velocity_rough_anymal_c_v1"), seeds=tuple(range(16)), episode_length_s=0.6)


def fidget(observations: Any) -> torch.Tensor:
    """Move all twelve joints by what is seen."""
    return torch.tanh(observations["policy"][:, :12])


@pytest.mark.slow  # Newton's and MuJoCo-Warp's kernels are other ones then, which take minutes to compile
@pytest.mark.parametrize(("asked", "promised"), [("true", "bitwise"), ("false", "statistical")])
def test_company_changes_an_episode_exactly_where_none_is_promised_to_repeat(asked: str, promised: str) -> None:
    from ledger_lab.runners.session import exactness, registered_tasks, simulation_app

    def cfg() -> Any:
        return task_cfg(TASK, f"env.sim.physics.deterministic={asked}")

    registered_tasks()
    exam = Exam(PANEL, fidget, fidget, cfg)
    assert exactness(cfg()) == promised
    with simulation_app(cfg(), {"device": "cpu"}):
        alone, beside = exam.alone(), exam.beside_training(23)
    assert len(set(alone.fingerprint)) == len(PANEL.seeds)
    assert (alone == beside) is (promised == "bitwise")


def test_what_sorts_the_contacts_is_named_by_either_setting() -> None:
    from ledger_lab.runners.session import exactness, registered_tasks

    registered_tasks()
    for override, promised in (
        ("env.sim.physics.deterministic=false", "statistical"),
        ("env.sim.physics.deterministic=true", "bitwise"),
        ("env.sim.physics.deterministic_mode=run_to_run", "bitwise"),
        ("physics=ovphysx", "statistical"),
    ):
        assert exactness(task_cfg(TASK, override)) == promised, override
    flat = task_cfg("LedgerLab-Velocity-Flat-AnymalC")
    assert exactness(flat) == "bitwise", "MuJoCo-Warp finds each robot's contacts for itself"
    flat.sim.device = "cuda:0"
    assert exactness(flat) == "statistical"
