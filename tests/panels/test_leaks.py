"""Each way in which episodes could depend on each other, in real simulations on Newton.

Two tests show each leak. With the handling of the leak, the episodes are equal bit for bit: alone, and in other slots
beside other policies and training. Without the handling, they differ. What is refused is in ``test_refused_panels.py``.
"""

from __future__ import annotations

import functools
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
from tests.fakes.held_out import WARP, Trial, runtime, still, task_cfg, thorough
from tests.fakes.leaky_cartpole import leaky

SEEDS = tuple(range(7))
PANEL = replace(load_panel("cartpole_v1"), seeds=SEEDS, episode_length_s=1.0, hold_s=0.5)


def balance(observations: Any) -> torch.Tensor:
    """Push the cart under the pole."""
    gains = torch.tensor([[0.02], [-0.6], [0.15], [-0.15], *[[0.1]] * (observations["policy"].shape[1] - 4)])
    return observations["policy"] @ gains


_runtime = runtime("LedgerLab-Cartpole")


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


@pytest.mark.parametrize(
    "leaks",
    [
        "startup_event curriculum interval_event random_observation_object action_noise rare_reset_event",
        "command global_interval_object observation_noise actuator_delay step_counter terrain",
        "reset_event goal_command global_interval_event random_observation smoothed",
    ],
)
def test_episodes_depend_on_their_seeds_alone(leaks: str) -> None:
    """Several leaks at once show the same as each alone, and an object that remembers its own episode is none."""
    expected = trial(*leaks.split()).alone()
    assert len(set(expected.fingerprint)) == len(SEEDS), "each seed is an episode of its own"
    assert trial(*leaks.split()).in_company() == expected


@pytest.mark.thorough
def test_episodes_are_the_same_beside_one_environment_and_beside_many() -> None:
    """Quicker: the test above, beside five."""
    leaks = ("startup_event", "interval_event", "rare_reset_event")
    expected = trial(*leaks).alone()
    assert trial(*leaks).in_company(1, places=1) == expected
    assert trial(*leaks).in_company(512, places=1) == expected


@pytest.mark.parametrize("leak", [leak if leak == "command" else thorough(leak) for leak in LEAKS])
def test_without_own_streams_the_same_episodes_differ(leak: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.panels import hooks, slots
    from ledger_lab.panels.scoring import score_policies

    monkeypatch.setattr(slots, "OwnDraws", lambda *_: nullcontext())
    monkeypatch.setattr(slots.Rehearsal, "require_own_episodes", lambda *_: None)
    monkeypatch.setattr(hooks.Hooks, "_require_no_stray_draws", lambda *_: None)
    with trial(leak).simulation(2) as (_, held_out):
        held_out.reset()
        first, second = score_policies(held_out, [balance, balance])
    assert first.outcomes != second.outcomes


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("handling", "leak", "complaint"),
    [
        ("declared.Declared.playing", "curriculum", "the same episode now differs in command 'number' at the start"),
        ("hooks.Hooks._attach_noise", "observation_noise", "differ: observation 'joint_pos' in step 1"),
        ("hooks.COUNTERS", "step_counter", "reset event 'growing' changes joint_velocity of 'robot'"),
    ],
)
def test_without_its_handling_a_leak_is_found(
    handling: str, leak: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ledger_lab.panels import hooks

    nothing: Any = () if handling.endswith("COUNTERS") else lambda *_: nullcontext()
    monkeypatch.setattr(f"ledger_lab.panels.{handling}", nothing)
    monkeypatch.setattr(hooks.Hooks, "_require_no_stray_draws", lambda *_: None)
    with pytest.raises(UserError, match=complaint):
        trial(leak).in_company(places=1)


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


@pytest.mark.parametrize(
    ("leak", "complaint"),
    [
        ("shared_curriculum", "a curriculum or an event changed termination 'cart_out_of_bounds'"),
        ("numpy_interval", "drew random numbers .*not with torch"),
        ("stored_statistic", "termination 'far' .*This depends on other environments"),
        ("stored_start", "reset event 'surprise' changes joint_velocity of 'robot' .*on what happened before"),
    ],
)
def test_what_a_training_would_change_is_refused(leak: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        trial(leak).in_company(places=1)


def test_a_draw_that_no_hook_separates_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.panels import hooks

    monkeypatch.setattr(hooks.Hooks, "_drawing_terms", lambda _: iter(()))
    with pytest.raises(UserError, match="drew random numbers for all environments at once"):
        trial("action_noise").alone()


def test_a_proof_draws_its_own_start_up_values_in_a_cell_that_scales_them() -> None:
    heavy = Cell("heavy", read_perturbations("test", {"mass": {"bodies": "pole", "scale": [1.1, 1.5]}}))
    panel = replace(PANEL, cells=(heavy,))
    fresh = panel.proof("run", 1)
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
    from ledger_lab.panels.scoring import score_policies

    with trial(*leaks).simulation(1) as (env, slots):
        slots.reset()
        (score,) = score_policies(slots, [balance])
        assert env.unwrapped.scene.cfg.env_spacing == 4.0
        assert "terrain" in leaks or not env.unwrapped.scene.env_origins.any()
    assert "left" not in score.outcomes.ended_by and "horizon" in score.outcomes.ended_by


def test_a_policy_acts_in_batches_of_one_size() -> None:
    from ledger_lab.panels.slots import BATCH, InBatches

    sizes: list[int] = []

    def sensitive(observations: Any) -> torch.Tensor:
        sizes.append(len(observations["policy"]))
        return observations["policy"] * len(observations["policy"])

    numbers = torch.randn(2 * BATCH + 3, 4)
    together = InBatches(sensitive)({"policy": numbers})
    for count in (1, BATCH - 1, BATCH, BATCH + 1):
        assert torch.equal(InBatches(sensitive)({"policy": numbers[:count]}), together[:count])
    assert set(sizes) == {BATCH}
