"""Held-out episodes take place on held-out ground, and training never does, in real simulations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from benchmarks.ground import patches
from ledger_lab.errors import UserError
from ledger_lab.panels import PanelIdentity, load_panel
from tests.fakes.held_out import WARP, Trial, runtime, still, task_cfg
from tests.fakes.robots import ENGINES

SEEDS = tuple(range(7))
PANEL = replace(load_panel("cartpole_v1"), seeds=SEEDS, episode_length_s=0.2, hold_s=0.1)
TRAINING = 10
ROUGH = "LedgerLab-Velocity-Rough-AnymalC"


def on_isaac_labs_terrain(**importer: Any) -> Any:
    """Return a cart-pole on a small grid of Isaac Lab's own rough terrain, with goals on flat patches."""
    from isaaclab.envs.mdp import TerrainBasedPose2dCommandCfg
    from isaaclab.terrains import FlatPatchSamplingCfg
    from isaaclab.terrains.config.rough import ROUGH_TERRAINS_CFG

    from tests.fakes.leaky_cartpole import CommandsCfg, leaky

    cfg = leaky(task_cfg(PANEL.task, WARP), "terrain")
    cfg.scene.terrain.terrain_generator = ROUGH_TERRAINS_CFG.replace(
        num_rows=2, num_cols=3, border_width=2.0, curriculum=True
    )
    for kind in cfg.scene.terrain.terrain_generator.sub_terrains.values():
        kind.flat_patch_sampling = {
            "target": FlatPatchSamplingCfg(num_patches=2, patch_radius=0.1, max_height_diff=1.0)
        }
    cfg.commands = CommandsCfg(
        number=TerrainBasedPose2dCommandCfg(
            asset_name="robot",
            simple_heading=False,
            resampling_time_range=(0.05, 0.1),
            ranges=TerrainBasedPose2dCommandCfg.Ranges(heading=(-3.0, 3.0)),
        )
    )
    for name, value in importer.items():
        setattr(cfg.scene.terrain, name, value)
    return cfg


_runtime = runtime(PANEL.task)


@contextmanager
def simulation(cfg: Any, places: int = 1, training: int = 0) -> Iterator[tuple[Any, Any]]:
    """Open a simulation, and reset it."""
    with Trial(PANEL, still, still, lambda: cfg).simulation(places, training) as (env, slots), torch.inference_mode():
        slots.reset()
        yield env.unwrapped, slots


def take(slots: Any) -> Iterator[None]:
    """Take a panel, with all training robots starting over and over."""
    slots.begin([still] * slots.places)
    base = slots._base
    while not slots.idle:
        base.episode_length_buf[: slots.first : 2] = base.max_episode_length
        slots.step(torch.zeros(slots.first, slots.action_count))
        yield


def starts(cfg: Any, places: int = 1, training: int = 0) -> torch.Tensor:
    """Return level, type, origin and first goal of the last policy's episodes, in the order of the seeds."""
    with simulation(cfg, places, training) as (base, slots):
        next(iter(take(slots)))
        rows = slice(slots.first + (places - 1) * len(SEEDS), slots.first + places * len(SEEDS))
        terrain = base.scene.terrain
        where = torch.stack([terrain.terrain_levels, terrain.terrain_types], dim=1)
        goals = base.command_manager.get_term("number").pos_command_w
        return torch.cat([where, base.scene.env_origins, goals], dim=1)[rows].clone()


def test_training_and_scoring_stay_on_their_own_ground_of_isaac_labs_rough_terrain() -> None:
    with simulation(on_isaac_labs_terrain(), training=TRAINING) as (base, slots):
        terrain, goals = base.scene.terrain, base.command_manager.get_term("number").pos_command_w
        ground, trained = terrain.flat_patches.held_out, terrain.terrain_origins.clone()
        targets = terrain.flat_patches["target"].clone()
        visited = set()
        for _ in range(2):
            for _ in take(slots):
                for place in (base.scene.env_origins, goals):
                    assert (place[:TRAINING, 0] < -20.0).all() and (place[TRAINING:, 0] > 20.0).all()
                visited |= {tuple(each) for each in base.scene.env_origins[:TRAINING].tolist()}
                held_out = ground.origins[terrain.terrain_levels, terrain.terrain_types][TRAINING:]
                assert torch.equal(base.scene.env_origins[TRAINING:], held_out)
        assert len(visited) == 6, "the curriculum sends training robots to all of their patches"
        assert torch.equal(terrain.terrain_origins, trained) and torch.equal(terrain.flat_patches["target"], targets)


def test_the_patch_of_an_episode_depends_on_its_seed_alone() -> None:
    cfg = on_isaac_labs_terrain()
    alone = starts(cfg)
    assert len(alone[:, :2].unique(dim=0)) > 2
    assert torch.equal(alone[:, :2], torch.tensor(patches(PANEL.task, SEEDS, 2, 3)).T), "as the benchmark says"
    assert torch.equal(starts(cfg, places=2, training=TRAINING), alone)


def test_robots_on_a_grid_stand_on_their_own_ground() -> None:
    from ledger_lab.panels.slots import HeldOutSlots
    from ledger_lab.training.runners.session import environment, held_out_config

    cfg = on_isaac_labs_terrain(use_terrain_origins=False, env_spacing=2.0)
    cfg.commands = cfg.curriculum = None
    with environment(PANEL.task, held_out_config(cfg, len(SEEDS), TRAINING)) as env:
        for _ in range(2):
            with HeldOutSlots(env, PANEL, TRAINING).attached() as slots, torch.inference_mode():
                slots.reset()
                base, away = env.unwrapped, env.unwrapped.scene.terrain.flat_patches.held_out.away_m
                for _ in take(slots):
                    place = base.scene.env_origins[:, 0]
                    assert torch.allclose(place[:TRAINING], torch.tensor(-away))
                    assert torch.allclose(place[TRAINING:], torch.tensor(away))


def test_an_importer_that_loses_the_held_out_ground_is_refused() -> None:
    from isaaclab.terrains import TerrainImporter

    class Forgetful(TerrainImporter):
        @property
        def flat_patches(self) -> dict[str, torch.Tensor]:
            return dict(self._terrain_flat_patches)

    cfg = on_isaac_labs_terrain(class_type=Forgetful)
    with pytest.raises(UserError, match="Forgetful does not keep the flat patches"), simulation(cfg):
        pass


@pytest.mark.parametrize("whose", ["training", "held-out"])
def test_a_reset_that_does_not_keep_the_grounds_apart_is_refused(whose: str) -> None:
    from isaaclab.managers import EventTermCfg

    def cross(env: Any, env_ids: torch.Tensor) -> None:
        ids = env_ids[(env_ids < TRAINING) if whose == "training" else (env_ids >= TRAINING)]
        pose = env.scene["robot"].data.root_link_pose_w.torch[ids].clone()
        pose[:, 0] = 30.0 if whose == "training" else -30.0
        env.scene["robot"].write_root_pose_to_sim_index(root_pose=pose, env_ids=ids.int())

    cfg = on_isaac_labs_terrain()
    cfg.commands, cfg.events.cross = None, EventTermCfg(func=cross, mode="reset")
    with (
        pytest.raises(UserError, match="a reset places training robots on held-out ground, or held-out"),
        simulation(cfg, training=TRAINING) as (_, slots),
    ):
        assert whose == "training", "held-out starts are refused before the first episode"
        for _ in take(slots):
            pass
        slots.outcomes()


@pytest.mark.parametrize("physics", ENGINES)
def test_anymal_walks_and_sees_on_its_own_ground(physics: str) -> None:
    panel = replace(load_panel("velocity_rough_anymal_c_v1"), seeds=SEEDS, episode_length_s=0.2, hold_s=0.1)
    small = [f"env.scene.terrain.terrain_generator.{name}" for name in ("num_rows=2", "border_width=4.0")]
    cfg = task_cfg(ROUGH, f"physics={physics}", *small)

    def rest(observations: Any) -> torch.Tensor:
        return torch.zeros(len(observations["policy"]), 12)

    trial = Trial(panel, rest, rest, lambda: cfg)
    with trial.simulation(1, TRAINING) as (env, slots), torch.inference_mode():
        slots.reset()
        base, robot = env.unwrapped, env.unwrapped.scene["robot"]
        failing = base.curriculum_manager.cfg.frontier_patches.func.failing
        assert failing.shape == (2, 6), "the curriculum knows the patches of the training only"
        visited = set()
        slots.begin([rest])
        while not slots.idle:
            base.episode_length_buf[:TRAINING:2] = base.max_episode_length
            slots.step(torch.zeros(TRAINING, 12))
            for place in (base.scene.env_origins, robot.data.root_pos_w.torch):
                assert (place[:TRAINING, 0] < -20.0).all() and (place[TRAINING:, 0] > 20.0).all()
            visited |= {tuple(each) for each in base.scene.env_origins[:TRAINING].tolist()}
            assert not base.termination_manager.get_term("off_the_terrain").any()
        assert len(visited) > 6

        pose = robot.data.root_link_pose_w.torch.clone()
        ground = base.scene.terrain.flat_patches.held_out
        over = slice(TRAINING, TRAINING + 6)  # observations of held-out robots have no noise
        pose[over, :3] = ground.origins[1] + torch.tensor([0.0, 0.0, 0.6])
        pose[over, 3:] = torch.tensor([0.0, 0.0, 0.0, 1.0])
        pose[over.stop, :3] = torch.tensor([ground.away_m + 60.0, 0.0, 0.6])
        robot.write_root_pose_to_sim_index(root_pose=pose)
        robot.write_root_velocity_to_sim_index(root_velocity=torch.zeros_like(robot.data.root_com_vel_w.torch))
        with slots._hooks.step():
            base.step(torch.zeros(base.num_envs, 12))
        seen = base.observation_manager.compute()["policy"][:, 48:]
        kinds = list(base.scene.terrain.cfg.terrain_generator.sub_terrains)
        for kind, heights in zip(kinds, seen[over], strict=True):
            level = heights.max() - heights.min() < 0.1
            assert level == (kind != "random_rough"), "the middles of all patches but gravel are level"
        assert bool(base.termination_manager.get_term("off_the_terrain")[over.stop])


def test_generated_terrain_changes_the_panel_id_and_other_ground_does_not() -> None:
    from ledger_lab.ledger import read_ledger
    from ledger_lab.tasks.pretrained import ROOT
    from ledger_lab.training.runners.description import describe_simulation, scoring_code
    from ledger_lab.training.runners.session import held_out_config

    for task, panel in (
        (ROUGH, "velocity_rough_anymal_c_v1"),
        (ROUGH.replace("Rough", "Flat"), "velocity_flat_anymal_c_v1"),
    ):
        declared = read_ledger(ROOT / task).runs[0].declared
        cfg = task_cfg(task, "physics=newton_mujoco")
        described = (describe_simulation(held_out_config(cfg, 1, ground=ground)) for ground in ("held_out", "trained"))
        code = scoring_code(load_panel(panel), cfg)
        held_out, trained = (PanelIdentity.of(load_panel(panel), {**each, "code": code}) for each in described)
        assert declared.panel_id == held_out.id
        assert (held_out.id == trained.id) is (task != ROUGH)
        assert held_out.fields.get("ground") == ("held_out" if task == ROUGH else None)
