"""Everything through which episodes could depend on each other, one by one, in real simulations on Newton.

Each leak is shown twice: handled, the episodes are the same bit for bit alone, in other slots, beside other policies
and beside training; with its handling taken away, they are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.panels import Cell, Panel, load_panel
from ledger_lab.panels.perturbations import read_perturbations
from tests.fakes.held_out import Exam, still, task_cfg
from tests.fakes.leaky_cartpole import leaky

SEEDS = tuple(range(7))
PANEL = replace(load_panel("cartpole_v1"), seeds=SEEDS, episode_length_s=1.5, hold_s=0.5)


def balance(observations: Any) -> torch.Tensor:
    """Push the cart under the pole."""
    gains = torch.tensor([[0.02], [-0.6], [0.15], [-0.15], *[[0.1]] * (observations["policy"].shape[1] - 4)])
    return observations["policy"] @ gains


@pytest.fixture(scope="module", autouse=True)
def _runtime() -> Iterator[None]:
    from ledger_lab.runners.session import simulation_app
    from ledger_lab.tasks.registry import registered_tasks

    registered_tasks()
    with simulation_app(task_cfg("LedgerLab-Cartpole"), {"device": "cpu"}):
        yield


def exam(leak: str, panel: Panel = PANEL) -> Exam:
    """Return the exam on a cart-pole with one leak."""
    return Exam(panel, balance, still, lambda: leaky(task_cfg("LedgerLab-Cartpole"), leak))


LEAKS = [
    "reset_event",
    "startup_event",
    "command",
    "interval_event",
    "global_interval_event",
    "random_observation",
    "action_noise",
    "actuator_delay",
    "rare_reset_event",
    "terrain",
]


@pytest.mark.parametrize("leak", [*LEAKS, "curriculum", "observation_noise"])
def test_episodes_depend_on_their_seeds_alone(leak: str) -> None:
    expected = exam(leak).alone()
    assert len(set(expected.fingerprint)) == len(SEEDS), "each seed is an episode of its own"
    assert exam(leak).in_company() == expected
    assert exam(leak).beside_training() == expected


@pytest.mark.parametrize("leak", LEAKS)
def test_without_streams_of_their_own_they_do_not(leak: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.panels import hooks, slots

    monkeypatch.setattr(slots, "OwnDraws", lambda *_: nullcontext())
    monkeypatch.setattr(hooks.Hooks, "_check", lambda *_: None)
    assert exam(leak).in_company() != exam(leak).beside_training()


def test_without_the_configured_ranges_a_curriculum_reaches_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.panels import hooks

    expected = exam("curriculum").alone()
    monkeypatch.setattr(hooks.Hooks, "as_configured", lambda _: nullcontext())
    assert exam("curriculum").beside_training() != expected


def test_a_curriculum_that_changes_what_all_share_is_refused() -> None:
    with pytest.raises(UserError, match="termination 'cart_out_of_bounds' was changed while training went on"):
        exam("shared_curriculum").beside_training()


def test_without_the_hook_observation_noise_reaches_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.panels import hooks

    monkeypatch.setattr(hooks.Hooks, "_attach_noise", lambda *_: None)
    monkeypatch.setattr(hooks.Hooks, "_check", lambda *_: None)
    assert exam("observation_noise").in_company() != exam("observation_noise").beside_training()


def test_a_draw_that_is_shared_between_slots_is_refused() -> None:
    with pytest.raises(UserError, match="belong to no single slot"):
        exam("shared_draw").alone()


def test_a_draw_that_nobody_accounts_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.panels import hooks

    monkeypatch.setattr(hooks.Hooks, "_drawing_terms", lambda _: iter(()))
    with pytest.raises(UserError, match="drew random numbers for all environments at once"):
        exam("action_noise").alone()


def test_numbers_that_torch_does_not_draw_are_refused() -> None:
    for leak in ("numpy_reset", "numpy_interval"):
        with pytest.raises(UserError, match="numpy|not with torch"):
            exam(leak).alone()


def test_a_confirmation_draws_its_own_start_up_under_a_cell_that_changes_the_same() -> None:
    heavy = Cell("heavy", read_perturbations("test", {"mass": {"bodies": "pole", "scale": [1.1, 1.5]}}))
    panel = replace(PANEL, cells=(heavy,))
    fresh = panel.confirmation("run", 1)
    found = []
    for before in ([panel], []):
        with exam("startup_event", panel).simulation(1) as (_, slots), torch.inference_mode():
            slots.reset()
            for each in (*before, fresh):
                slots.begin([balance], each)
                while not slots.idle:
                    slots.step(torch.zeros(0, 1))
            found += slots.outcomes()
    assert found[0] == found[1]


def test_without_a_patch_of_its_own_an_episode_stands_where_the_training_left_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ledger_lab.panels import hooks

    monkeypatch.setattr(hooks.Hooks, "place_on_terrain", lambda *_: None)
    assert exam("terrain").in_company() != exam("terrain").beside_training()


def test_training_slots_stand_on_all_types_of_ground_as_if_they_were_alone() -> None:
    with exam("terrain").simulation(1, training=10) as (env, slots):
        terrain = env.unwrapped.scene.terrain
        alone = SimpleNamespace(cfg=terrain.cfg, device="cpu")
        type(terrain)._compute_env_origins_curriculum(alone, slots.first, terrain.terrain_origins)
        assert (
            terrain.terrain_types[: slots.first].tolist()
            == alone.terrain_types.tolist()
            == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
        )
        stand = terrain.terrain_origins[terrain.terrain_levels, terrain.terrain_types]
        assert torch.equal(terrain.env_origins, stand)


def test_a_policy_acts_in_batches_of_one_size() -> None:
    from ledger_lab.panels.slots import BATCH, in_batches

    sizes: list[int] = []

    def sensitive(observations: Any) -> torch.Tensor:
        sizes.append(len(observations["policy"]))
        return observations["policy"] * len(observations["policy"])

    numbers = torch.randn(2 * BATCH + 3, 4)
    together = in_batches(sensitive, {"policy": numbers})
    for count in (1, BATCH - 1, BATCH, BATCH + 1):
        assert torch.equal(in_batches(sensitive, {"policy": numbers[:count]}), together[:count])
    assert set(sizes) == {BATCH}
