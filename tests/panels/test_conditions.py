"""A perturbation changes only the slots of its cell, by the drawn amount."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from ledger_lab.ledger import Outcomes
from ledger_lab.panels import Cell, load_panel
from ledger_lab.panels.perturbations import KINDS, read_perturbations
from tests.fakes.held_out import Trial, still, task_cfg
from tests.panels.test_leaks import balance

ROBUST = load_panel("cartpole_robust_v1")
SEEDS = tuple(range(5))
SHORT = replace(ROBUST, seeds=SEEDS, episode_length_s=1.5, hold_s=0.5)


@pytest.fixture(scope="module", autouse=True)
def _runtime() -> Iterator[None]:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.session import simulation_app

    registered_tasks()
    with simulation_app(task_cfg("LedgerLab-Cartpole"), {"device": "cpu"}):
        yield


def trial(panel: Any, policy: Any = balance) -> Trial:
    """Return the trial on a nominal cart-pole."""
    return Trial(panel, policy, still, lambda: task_cfg("LedgerLab-Cartpole"))


def by_cell(outcomes: Outcomes) -> dict[str, list[str]]:
    """Return the fingerprints of each cell."""
    cells: dict[str, list[str]] = {}
    for cell, fingerprint in zip(outcomes.cell, outcomes.fingerprint, strict=True):
        cells.setdefault(cell, []).append(fingerprint)
    return cells


def with_cell(**perturbations: Any) -> Any:
    """Return the short panel with a nominal cell and another one."""
    return with_cells(other=perturbations)


def with_cells(**cells: dict[str, Any]) -> Any:
    """Return the short panel with a nominal cell and others, by their names."""
    others = (Cell(name, read_perturbations("test", perturbations)) for name, perturbations in cells.items())
    return replace(SHORT, cells=(Cell("nominal"), *others))


@pytest.fixture(scope="module")
def robust() -> Outcomes:
    return trial(SHORT).alone()


def test_the_robust_panel_has_every_perturbation_that_a_cart_pole_supports() -> None:
    kinds = {part.kind for cell in ROBUST.cells for part in cell.perturbations}
    assert kinds == set(KINDS) - {"friction"}, "nothing of a cart-pole touches anything"


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
    assert trial(SHORT).beside_training() == robust


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


@pytest.fixture(scope="module")
def unchanged() -> dict[str, list[str]]:
    """Fingerprints of a nominal cell, and of a cell for each perturbation of zero."""
    return by_cell(trial(with_cells(**{kind: {kind: params} for kind, params in ZERO.items()})).alone())


@pytest.mark.parametrize("kind", ZERO)
def test_a_perturbation_of_zero_changes_nothing(unchanged: dict[str, list[str]], kind: str) -> None:
    assert unchanged[kind] == unchanged["nominal"]


def pushing(observations: Any) -> torch.Tensor:
    """Push with the same force all the time."""
    return torch.full((observations["policy"].shape[0], 1), 0.2)


def test_a_delay_of_the_whole_episode_equals_no_action() -> None:
    delayed = by_cell(trial(with_cell(action_delay={"steps": 100}), pushing).alone())
    nothing = by_cell(trial(with_cell(), still).alone())
    assert delayed["other"] == nothing["nominal"] != delayed["nominal"]


def test_a_motor_of_half_the_strength_pushes_half_as_hard() -> None:
    def half(observations: Any) -> torch.Tensor:
        return 0.5 * pushing(observations)

    # The motor's damping is weaker, too: without it, half the strength is half the command.
    weak = trial(with_cell(actuator_strength={"scale": 0.5}, actuator_damping={"scale": 0.0}), pushing).alone()
    gentle = trial(with_cell(actuator_damping={"scale": 0.0}), half).alone()
    assert by_cell(weak)["other"] == by_cell(gentle)["other"]


def test_a_latency_of_half_a_step_lies_between_none_and_a_whole_step() -> None:
    half, whole = ({"control_latency": {"physics_steps": steps}} for steps in (1, 2))
    cells = by_cell(trial(with_cells(half=half, whole=whole, delayed={"action_delay": {"steps": 1}})).alone())
    assert len({tuple(each) for each in cells.values()}) == 4


def test_a_latency_of_a_whole_step_equals_a_delay_of_one_step_after_the_first_action() -> None:
    def steady(observations: Any) -> torch.Tensor:
        return torch.full((observations["policy"].shape[0], 1), 0.1)

    cells = by_cell(trial(with_cell(control_latency={"physics_steps": 2}), steady).alone())
    assert cells["other"] == cells["nominal"], "the same command all the time cannot be late"
