"""What a curriculum or an event changes does not reach held-out episodes, or it is refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import pytest
import torch
import warp as wp

from ledger_lab.errors import UserError
from ledger_lab.panels import Cell, load_panel
from ledger_lab.panels.perturbations import read_perturbations
from tests.fakes.changing_cartpole import HeavyCartpole, changing
from tests.fakes.held_out import WARP, Trial, parameters, runtime, still, task_cfg, thorough
from tests.panels.test_leaks import balance

PANEL = replace(load_panel("cartpole_v1"), seeds=tuple(range(5)), episode_length_s=1.0, hold_s=0.5)


_runtime = runtime("LedgerLab-Cartpole")


def trial(*changes: str, panel: Any = PANEL, physics: str = "physics=newton_mujoco") -> Trial:
    """Return the trial on a cart-pole with changes."""
    return Trial(panel, balance, still, lambda: changing(task_cfg("LedgerLab-Cartpole", physics), *changes))


@pytest.mark.parametrize(
    "changes",
    [
        "gravity,home,slot scales,row_per_slot,explicit motor,motor",
        "clipped command,narrower,noise,noisier,joint_damping",
        "gravity add at startup,gravity scale at interval,mass at interval,gains at reset,growing kick at reset",
        thorough(
            "gravity add at reset,gravity scale at startup,mass at startup,gains at interval,growing kick at startup"
        ),
        thorough(
            "gravity add at interval,gravity scale at reset,mass at reset,gains at startup,growing kick at interval"
        ),
    ],
)
def test_held_out_episodes_play_with_what_the_task_declares(changes: str) -> None:
    own = changes.split(",")
    expected = trial(*own).alone()
    assert len(set(expected.fingerprint)) == len(PANEL.seeds)
    assert trial(*own).in_company() == expected


def test_mujoco_warp_keeps_what_is_declared() -> None:
    expected = trial("gravity", "mass at interval", physics=WARP).alone()
    assert trial("gravity", "mass at interval", physics=WARP).in_company() == expected


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("episode_length", r"a curriculum or an event changed env.cfg.episode_length_s, which training and held-out"),
        ("action_scale", "a curriculum changed _scale of action 'cart_force'"),
        ("action_scale by event at reset", "an event changed _scale of action 'cart_force'"),
    ],
)
def test_what_all_slots_share_is_refused_by_name(change: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        trial(change).in_company()


def test_what_an_environment_sets_after_it_has_been_built_belongs_to_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a rehearsal does not keep the solver from hearing of it."""
    monkeypatch.setattr(gym.spec("LedgerLab-Cartpole"), "entry_point", HeavyCartpole)
    with trial("gains at startup").simulation(1, 3) as (env, slots), torch.inference_mode():
        slots.reset()
        slots.step(torch.zeros(3, 1))
        slots.begin([still])
        slots.step(torch.zeros(3, 1))
        slots.step(torch.zeros(3, 1))
        solver = wp.to_torch(env.unwrapped.sim.physics_manager._solver.mjw_model.body_mass)
        told = parameters(slots)["body_mass"].unflatten(0, (slots.count, -1))
        assert (told[:, 0] == 3.0).all(), "the cart"
        assert torch.equal(solver[3:, -told.shape[1] :], told)


def test_an_asset_with_an_order_of_its_own_keeps_what_is_declared() -> None:
    """Isaac Lab's copies of masses are put back, too, from which a start-up event draws new ones."""
    panel = replace(load_panel("velocity_flat_go2_v1"), seeds=(0, 1))
    go2 = Trial(panel, still, still, lambda: task_cfg("LedgerLab-Velocity-Flat-Go2"))
    with go2.simulation(2) as (env, slots):
        robot = env.unwrapped.scene["robot"]
        assert robot.data.has_body_ordering
        masses = robot.data.body_mass.torch[:4]
        assert torch.equal(masses[:2], masses[2:]) and not torch.equal(masses[0], masses[1])
        assert slots.capacity_used["constraints"] == 0, "what a rehearsal needs is no need of the task"


def test_gravity_of_all_environments_is_refused_before_a_training() -> None:
    from ledger_lab.panels.checks import require_seedable

    require_seedable(changing(task_cfg("LedgerLab-Cartpole"), "gravity add at reset"))
    with pytest.raises(UserError, match="events.gravity .*all environments of ovphysx have the same gravity"):
        require_seedable(changing(task_cfg("LedgerLab-Cartpole", "physics=ovphysx"), "gravity add at reset"))


CELLS = {
    "mass": ("mass", {"bodies": "pole", "scale": 2.0}, "body_mass"),
    "center_of_mass": ("center of mass", {"bodies": "pole", "offset_m": 0.03}, "body_com"),
    "joint_friction": ("joint friction", {"joints": ".*", "add": 0.5}, "joint_friction"),
    "actuator_damping": ("gains", {"joints": ".*", "scale": 3.0}, "joint_target_kd"),
    "actuator_strength": ("gains", {"joints": ".*", "scale": 0.5}, "joint_target_kd"),
    "gravity_tilt": ("gravity scale", {"angle_rad": 0.2}, "gravity"),
}
"""By kind of perturbation: the event that writes the same value, the perturbation, and the parameter in the model."""


@pytest.mark.parametrize("mode", ["reset", *map(thorough, ("startup", "interval"))])
def test_a_cell_perturbs_what_an_event_has_drawn(mode: str) -> None:
    """Nominal cells with the same seeds show what the events drew."""
    cells = [Cell("nominal"), *(Cell(k, read_perturbations("test", {k: each[1]})) for k, each in CELLS.items())]
    panel = replace(PANEL, cells=tuple(cells), seeds=(0, 1, 2))
    events = tuple(f"{event} at {mode}" for event, *_ in CELLS.values())
    with trial(*dict.fromkeys(events), panel=panel).simulation(1) as (_, slots), torch.inference_mode():
        slots.reset()
        found = []
        for _ in range(2):
            slots.begin([still])
            for _ in range(45):
                slots.step(torch.zeros(0, 1))
            found.append(parameters(slots))
            while not slots.idle:
                slots.step(torch.zeros(0, 1))
    assert all(torch.equal(value, found[1][name]) for name, value in found[0].items()), "episodes leave nothing behind"
    played = {
        kind: found[0][name].unflatten(0, (slots.count, -1))[: len(panel.episodes)].unflatten(0, (len(cells), -1))
        for kind, (_, _, name) in CELLS.items()
    }
    for index, (kind, values) in enumerate(played.items(), 1):
        drawn, perturbed = values[0], values[index]
        assert not torch.equal(drawn[0], drawn[1]), f"the event draws for each seed: {kind}"
        match kind:
            case "mass":
                assert torch.allclose(perturbed[:, -1], 2.0 * drawn[:, -1])
            case "center_of_mass":
                assert torch.allclose(perturbed[:, -1], drawn[:, -1] + 0.03)
            case "joint_friction":
                assert torch.allclose(perturbed, drawn + 0.5)
            case "gravity_tilt":
                assert torch.allclose(perturbed.norm(dim=-1), drawn.norm(dim=-1))
                assert torch.allclose(perturbed[..., 2], drawn[..., 2] * torch.tensor(0.2).cos())
            case _:
                assert torch.allclose(perturbed, CELLS[kind][1]["scale"] * drawn)
