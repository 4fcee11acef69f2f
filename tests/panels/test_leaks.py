"""Each way in which episodes could depend on each other, in real simulations on Newton.

Two tests show each leak. With the handling of the leak, the episodes are equal bit for bit: alone, in other slots,
beside other policies and beside training. Without the handling, they differ.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from isaaclab.managers import CurriculumTermCfg, ManagerTermBase

from ledger_lab.errors import UserError
from ledger_lab.panels import Cell, Panel, load_panel
from ledger_lab.panels.perturbations import read_perturbations
from tests.fakes.held_out import WARP, Trial, still, task_cfg, thorough
from tests.fakes.leaky_cartpole import leaky

SEEDS = tuple(range(7))
PANEL = replace(load_panel("cartpole_v1"), seeds=SEEDS, episode_length_s=1.5, hold_s=0.5)


def balance(observations: Any) -> torch.Tensor:
    """Push the cart under the pole."""
    gains = torch.tensor([[0.02], [-0.6], [0.15], [-0.15], *[[0.1]] * (observations["policy"].shape[1] - 4)])
    return observations["policy"] @ gains


@pytest.fixture(scope="module", autouse=True)
def _runtime() -> Iterator[None]:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.session import simulation_app

    registered_tasks()
    with simulation_app(task_cfg("LedgerLab-Cartpole"), {"device": "cpu"}):
        yield


def trial(*leaks: str, panel: Panel = PANEL) -> Trial:
    """Return the trial on a cart-pole with leaks."""
    physics = [WARP] if "terrain" in leaks else []
    return Trial(
        panel, balance, still, lambda: functools.reduce(leaky, leaks, task_cfg("LedgerLab-Cartpole", *physics))
    )


LEAKS = [
    "reset_event",
    "startup_event",
    "command",
    "goal_command",
    "interval_event",
    "global_interval_event",
    "global_interval_object",
    "random_observation",
    "random_observation_object",
    "action_noise",
    "actuator_delay",
    "rare_reset_event",
    "terrain",
]
SHOWN = {"command"}
"""Leaks that quick tests show one by one."""
CLOCKS = ["hourly", "dated", "process", "hashed", "threads"]
"""Further ways in which a reset may depend on the clock or the process."""
HANDLED_OTHERWISE = ["curriculum", "observation_noise", "step_counter"]
"""Leaks that streams of their own do not handle."""


@pytest.mark.parametrize(
    "leaks",
    [
        (
            "startup_event",
            "curriculum",
            "interval_event",
            "random_observation_object",
            "action_noise",
            "rare_reset_event",
        ),
        ("command", "global_interval_object", "observation_noise", "actuator_delay", "step_counter", "terrain"),
        *(thorough((leak,)) for leak in [*LEAKS, *HANDLED_OTHERWISE]),
    ],
    ids=" ".join,
)
def test_episodes_depend_on_their_seeds_alone(leaks: tuple[str, ...]) -> None:
    """Several leaks at once show the same as each alone, but not which one leaks: the thorough cases show that."""
    expected = trial(*leaks).alone()
    assert len(set(expected.fingerprint)) == len(SEEDS), "each seed is an episode of its own"
    assert trial(*leaks).in_company() == expected
    assert trial(*leaks).beside_training() == expected


@pytest.mark.thorough
@pytest.mark.parametrize("leak", ["startup_event", "interval_event", "rare_reset_event"])
def test_episodes_are_the_same_beside_one_environment_and_beside_thousands(leak: str) -> None:
    """Quicker: the test above, beside five."""
    expected = trial(leak).alone()
    assert trial(leak).beside_training(1) == expected
    assert trial(leak).beside_training(2048) == expected


@pytest.mark.parametrize(
    "leak",
    [leak if leak in SHOWN else thorough(leak) for leak in LEAKS],
)
def test_without_own_streams_episodes_depend_on_other_slots(leak: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.panels import hooks, slots

    monkeypatch.setattr(slots, "OwnDraws", lambda *_: nullcontext())
    monkeypatch.setattr(slots.Rehearsal, "require_own_episodes", lambda *_: None)
    monkeypatch.setattr(hooks.Hooks, "_require_no_stray_draws", lambda *_: None)
    assert trial(leak).in_company() != trial(leak).beside_training()


@pytest.mark.thorough
def test_without_restored_terms_a_curriculum_changes_held_out_episodes_which_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ledger_lab.panels import declared

    monkeypatch.setattr(declared.Declared, "playing", lambda _: nullcontext())
    with pytest.raises(UserError, match="the same episode now differs in command 'number' at the start"):
        trial("curriculum").beside_training()


def test_a_command_may_change_when_its_goal_is_reached_also_where_the_host_does_not_wait() -> None:
    from ledger_lab.panels.view import TrainingView

    expected = trial("goal_command").alone()
    with trial("goal_command").simulation(1, training=5) as (env, slots), torch.inference_mode():
        slots._hooks._waits = True  # as on a GPU
        command, view = env.unwrapped.command_manager.get_term("number"), TrainingView(env, slots)
        view.reset()
        slots.begin([balance])
        most = 0
        while not slots.idle:
            view.step(torch.randn(5, 1))
            most = max(most, int(command.command_counter[5:].max()))
        assert most > PANEL.episode_length_s / 0.3, "goals were reached, before the time of their command was over"
        assert slots.outcomes() == [expected]


class LevelsByEnvironment(ManagerTermBase):
    """A curriculum whose progress is the mean of a level per environment, as Isaac Lab's ``DifficultyScheduler``."""

    def __init__(self, cfg: Any, env: Any) -> None:
        super().__init__(cfg, env)
        self.current_difficulties = torch.zeros(env.num_envs, device=env.device)
        self.progress = 0.0

    def __call__(self, env: Any, env_ids: Any) -> float:
        self.current_difficulties[env_ids] += 1.0
        self.progress = float(self.current_difficulties.mean())
        return self.progress


def test_held_out_slots_do_not_slow_a_curriculum_down() -> None:
    def cfg() -> Any:
        made = task_cfg("LedgerLab-Cartpole")
        made.curriculum = {"levels": CurriculumTermCfg(func=LevelsByEnvironment)}
        return made

    with Trial(PANEL, balance, still, cfg).simulation(1, training=5) as (env, slots):
        slots.reset()
        term = env.unwrapped.curriculum_manager.cfg["levels"].func
        assert term.progress == 1.0
        assert term.current_difficulties.tolist() == [1.0] * 5 + [0.0] * slots.count


def test_a_curriculum_that_changes_a_shared_term_is_refused() -> None:
    with pytest.raises(UserError, match="a curriculum or an event changed termination 'cart_out_of_bounds'"):
        trial("shared_curriculum").beside_training()


@pytest.mark.thorough
def test_without_the_hook_observation_noise_reaches_held_out_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.panels import hooks

    monkeypatch.setattr(hooks.Hooks, "_attach_noise", lambda *_: None)
    monkeypatch.setattr(hooks.Hooks, "_require_no_stray_draws", lambda *_: None)
    with pytest.raises(UserError, match="differ: observation 'joint_pos' in step 1"):
        trial("observation_noise").alone()


def test_a_draw_that_is_shared_between_slots_is_refused() -> None:
    with pytest.raises(UserError, match="^reset event 'shared': .*are shared by environments"):
        trial("shared_draw").alone()


def test_a_draw_that_no_hook_separates_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.panels import hooks

    monkeypatch.setattr(hooks.Hooks, "_drawing_terms", lambda _: iter(()))
    with pytest.raises(UserError, match="drew random numbers for all environments at once"):
        trial("action_noise").alone()


def test_random_numbers_of_other_libraries_than_torch_are_refused() -> None:
    for leak, complaint in (("numpy_reset", "^reset event 'numpy' draws from numpy"), ("numpy_interval", "with torch")):
        with pytest.raises(UserError, match=complaint):
            trial(leak).alone()


def test_a_reset_that_draws_from_a_generator_of_its_own_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="reset event 'surprise' changes joint_velocity of 'robot'"):
        trial("own_generator").alone()


@pytest.mark.thorough
def test_without_counters_of_their_own_starts_that_depend_on_them_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.panels import hooks

    monkeypatch.setattr(hooks, "COUNTERS", ())
    with pytest.raises(UserError, match="reset event 'growing' changes joint_velocity of 'robot'"):
        trial("step_counter").alone()


def test_an_observation_that_mixes_environments_is_refused() -> None:
    with pytest.raises(UserError, match="observation 'centered' .*This depends on other environments"):
        trial("mixing_observation").alone()


@pytest.mark.parametrize(
    ("leak", "complaint"),
    [
        thorough("farthest", "observation 'mixed' .*This depends on other environments"),
        thorough("last_mean", "observation 'mixed' .*This depends on (what happened before|other environments)"),
        ("moving_average", "observation 'mixed' .*This depends on what happened before"),
        thorough("kept_average", "observation 'mixed' .*This depends on (what happened before|other environments)"),
        ("age", "observation 'mixed' .*This depends on step counters"),
        thorough("mixing_termination", "termination 'far' .*This depends on other environments"),
        ("stored_statistic", "termination 'far' .*This depends on other environments"),
        (
            "stored_start",
            "reset event 'surprise' changes joint_velocity of 'robot' at the start.*on what happened before",
        ),
    ],
)
def test_terms_that_depend_on_more_than_their_own_episode_are_refused(leak: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        trial(leak).alone()


@pytest.mark.parametrize("leak", ["centred", *map(thorough, ("fixed", "spread"))])
def test_a_reset_that_depends_on_the_batch_is_refused_by_name(leak: str) -> None:
    with pytest.raises(
        UserError, match="reset event 'surprise' changes joint_velocity of 'robot' .*on other environments"
    ):
        trial(leak).alone()


@pytest.mark.parametrize(
    "leak",
    ["imported_clock", *map(thorough, CLOCKS)],
)
def test_a_reset_that_depends_on_the_clock_or_the_process_is_refused_by_name(leak: str) -> None:
    with pytest.raises(UserError, match="reset event 'surprise' changes .*step counters, the clock"):
        trial(leak).alone()


def test_an_object_may_remember_its_own_episode() -> None:
    expected = trial("smoothed").alone()
    assert trial("smoothed").beside_training() == expected


def test_a_confirmation_draws_its_own_start_up_values_in_a_cell_that_scales_them() -> None:
    heavy = Cell("heavy", read_perturbations("test", {"mass": {"bodies": "pole", "scale": [1.1, 1.5]}}))
    panel = replace(PANEL, cells=(heavy,))
    fresh = panel.confirmation("run", 1)
    found = []
    for before in ([panel], []):
        with trial("startup_event", panel=panel).simulation(1) as (_, slots), torch.inference_mode():
            slots.reset()
            for each in (*before, fresh):
                slots.begin([balance], each)
                while not slots.idle:
                    slots.step(torch.zeros(0, 1))
            found += slots.outcomes()
    assert found[0] == found[1]


@pytest.mark.thorough
def test_without_a_drawn_patch_an_episode_depends_on_earlier_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ledger_lab.panels import slots

    monkeypatch.setattr(slots, "place_on_patches", lambda *_: None)
    monkeypatch.setattr(slots.GroundWatch, "require_apart", lambda _: None)
    monkeypatch.setattr(slots.Rehearsal, "require_own_episodes", lambda *_: None)
    assert trial("terrain").in_company() != trial("terrain").beside_training()


def test_training_slots_are_spread_over_all_types_of_terrain() -> None:
    with trial("terrain").simulation(1, training=10) as (env, slots):
        terrain = env.unwrapped.scene.terrain
        alone = SimpleNamespace(cfg=terrain.cfg, device="cpu")
        type(terrain)._compute_env_origins_curriculum(alone, slots.first, terrain.terrain_origins)
        assert (
            terrain.terrain_types[: slots.first].tolist()
            == alone.terrain_types.tolist()
            == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
        )
        stand = terrain.terrain_origins[terrain.terrain_levels, terrain.terrain_types]
        assert torch.equal(terrain.env_origins[: slots.first], stand[: slots.first])


@pytest.mark.parametrize("leaks", [("spacing",), thorough(("spacing", "terrain"))])
def test_slots_share_an_origin_and_terms_read_the_declared_spacing(leaks: tuple[str, ...]) -> None:
    expected = trial(*leaks).alone()
    assert "left" not in expected.ended_by and "horizon" in expected.ended_by
    with trial(*leaks).simulation(1, training=5) as (env, _):
        assert env.unwrapped.scene.cfg.env_spacing == 4.0
        if "terrain" not in leaks:
            assert not env.unwrapped.scene.env_origins.any()


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
