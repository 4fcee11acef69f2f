"""A perturbation changes only the slots of its cell, by the drawn amount."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from ledger_lab.ledger import Outcomes
from ledger_lab.panels import Cell, load_panel
from ledger_lab.panels.perturbations import read_perturbations
from tests.fakes.held_out import Trial, runtime, still, task_cfg
from tests.panels.test_leaks import balance

ROBUST = load_panel("cartpole_robust_v1")
SEEDS = tuple(range(5))
SHORT = replace(ROBUST, seeds=SEEDS, episode_length_s=1.5, hold_s=0.5)


_runtime = runtime("LedgerLab-Cartpole")


def trial(panel: Any, policy: Any = balance) -> Trial:
    """Return the trial on a nominal cart-pole."""
    return Trial(panel, policy, still, lambda: task_cfg("LedgerLab-Cartpole"))


def by_cell(outcomes: Outcomes) -> dict[str, list[str]]:
    """Return the fingerprints of each cell."""
    cells: dict[str, list[str]] = {}
    for cell, fingerprint in zip(outcomes.cell, outcomes.fingerprint, strict=True):
        cells.setdefault(cell, []).append(fingerprint)
    return cells


@pytest.fixture(scope="module")
def robust() -> Outcomes:
    return trial(SHORT).alone()


def test_every_cell_changes_every_episode(robust: Outcomes) -> None:
    cells = by_cell(robust)
    assert list(cells) == [cell.name for cell in SHORT.cells]
    for name, fingerprints in cells.items():
        assert len(set(fingerprints)) == len(SEEDS), name
        if name == "pushes":  # some of them come after a second and a half
            assert set(fingerprints) != set(cells["nominal"])
        elif name != "nominal":
            assert not set(fingerprints) & set(cells["nominal"]), name


def test_other_cells_do_not_change_the_nominal_cell(robust: Outcomes) -> None:
    alone = trial(replace(SHORT, cells=(Cell("nominal"),))).alone()
    assert by_cell(robust)["nominal"] == alone.fingerprint


def test_perturbed_episodes_depend_on_their_seeds_alone(robust: Outcomes) -> None:
    assert trial(SHORT).in_company() == robust


ZERO: dict[str, dict[str, Any]] = {
    "initial_state": {"scale": 1.0},
    "mass": {"scale": 1.0},
    "center_of_mass": {"offset_m": 0.0},
    "joint_friction": {"add": 0.0},
    "actuator_strength": {"scale": 1.0},
    "actuator_damping": {"scale": 1.0},
    "action_delay": {"steps": 0},
    "control_latency": {"physics_steps": 0},
    "gravity_tilt": {"angle_rad": 0.0},
}
"""Perturbations that change nothing."""


OTHERS: dict[str, dict[str, Any]] = {
    "lost": {"action_delay": {"steps": 100}},
    "undamped": {"actuator_damping": {"scale": 0.0}},
    "weak": {"actuator_strength": {"scale": 0.5}, "actuator_damping": {"scale": 0.0}},
    "half a step": {"control_latency": {"physics_steps": 1}},
    "a step": {"control_latency": {"physics_steps": 2}},
    "delayed": {"action_delay": {"steps": 1}},
}


def pushing(observations: Any) -> torch.Tensor:
    """Push with the same force all the time."""
    return torch.full((observations["policy"].shape[0], 1), 0.2)


def pushing_half(observations: Any) -> torch.Tensor:
    """Push half as hard."""
    return 0.5 * pushing(observations)


type Cells = dict[str, list[str]]


@pytest.fixture(scope="module")
def played() -> list[Cells]:
    """Fingerprints by cell, with policies that balance, push, push half as hard, and do nothing: in one simulation."""
    from ledger_lab.panels.scoring import score_policies

    cells = {"nominal": {}, **{kind: {kind: params} for kind, params in ZERO.items()}, **OTHERS}
    panel = replace(SHORT, cells=tuple(Cell(name, read_perturbations("test", each)) for name, each in cells.items()))
    with trial(panel).simulation(4) as (_, slots):
        slots.reset()
        return [by_cell(score.outcomes) for score in score_policies(slots, [balance, pushing, pushing_half, still])]


@pytest.mark.parametrize("kind", ZERO)
def test_a_perturbation_of_zero_changes_nothing(played: list[Cells], kind: str) -> None:
    assert all(cells[kind] == cells["nominal"] for cells in played)


def test_actions_reach_the_motors_as_late_and_as_weak_as_the_cell_says(played: list[Cells]) -> None:
    balanced, pushed, pushed_half, nothing = played
    assert pushed["lost"] == nothing["nominal"] != pushed["nominal"]
    # The motor's damping is weaker, too: without it, half the strength is half the command.
    assert pushed["weak"] == pushed_half["undamped"]
    assert len({tuple(balanced[cell]) for cell in ("nominal", "half a step", "a step", "delayed")}) == 4
    assert pushed["a step"] == pushed["nominal"], "the same command all the time cannot be late"
