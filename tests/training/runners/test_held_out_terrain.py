"""Held-out ground has patches of its own, of the same kinds and levels, far from the ground of the training."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ledger_lab.panels.streams import GlobalStreams


@pytest.fixture
def cfg() -> Any:
    """Two levels of gravel and obstacles, with places for goals, as a user's task may bring them."""
    from isaaclab.terrains import (
        FlatPatchSamplingCfg,
        HfDiscreteObstaclesTerrainCfg,
        HfRandomUniformTerrainCfg,
        TerrainGeneratorCfg,
    )

    goals = {"target": FlatPatchSamplingCfg(num_patches=2, patch_radius=0.1, max_height_diff=1.0)}
    gravel = HfRandomUniformTerrainCfg(noise_range=(0.0, 0.1), noise_step=0.01, flat_patch_sampling=goals)
    boxes = HfDiscreteObstaclesTerrainCfg(
        obstacle_width_range=(0.4, 1.2),
        obstacle_height_range=(0.1, 0.2),
        num_obstacles=5,
        flat_patch_sampling=goals,
    )
    return TerrainGeneratorCfg(
        size=(4.0, 4.0),
        num_rows=2,
        num_cols=2,
        border_width=1.0,
        curriculum=True,
        sub_terrains={"gravel": gravel, "boxes": boxes},
    )


def configured(generator: Any, ground: str = "held_out", terrain_type: str = "generator") -> Any:
    """Return the generator's configuration in a simulation with held-out slots."""
    from ledger_lab.training.runners.session import held_out_config

    task = SimpleNamespace(
        scene=SimpleNamespace(
            num_envs=4,
            env_spacing=1.0,
            soil=SimpleNamespace(terrain_type=terrain_type, terrain_generator=copy.deepcopy(generator)),
        ),
        sim=SimpleNamespace(physics=None),
    )
    return held_out_config(task, 1, ground=ground).scene.soil.terrain_generator  # type: ignore[arg-type]


def generated(cfg: Any, training_seed: int = 0) -> Any:
    """Generate the ground in a training of some seed."""
    np.random.seed(training_seed)
    before = repr(GlobalStreams().to_data())
    ground = cfg.class_type(cfg, device="cpu")
    assert repr(GlobalStreams().to_data()) == before
    return ground


def points(ground: Any, x: float = 0.0) -> set[tuple[float, ...]]:
    """Return the corners of a mesh, moved along x, without the corners of walls and borders."""
    corners = np.asarray(ground.terrain_mesh.vertices) + [x, 0.0, 0.0]
    return {tuple(each) for each in corners.round(3) if abs(each[2]) > 1e-3}


def test_patches_of_the_training_are_as_without_held_out_ground(cfg: Any) -> None:
    both, trained = generated(configured(cfg)), generated(configured(cfg, "trained"))
    away = both.flat_patches.held_out.away_m
    assert points(trained, -away) <= points(both)
    assert np.allclose(both.terrain_origins, trained.terrain_origins - [away, 0.0, 0.0])
    assert torch.allclose(
        both.flat_patches["target"], trained.flat_patches["target"] - torch.tensor([away, 0.0, 0.0]), atol=1e-5
    )


def test_held_out_patches_are_others_and_the_same_in_every_simulation(cfg: Any) -> None:
    both, trained = generated(configured(cfg)), generated(configured(cfg, "trained"))
    held_out = both.flat_patches.held_out
    again = generated(configured(cfg), training_seed=7)
    assert np.array_equal(both.terrain_mesh.vertices, again.terrain_mesh.vertices)
    assert torch.equal(held_out.flat_patches["target"], again.flat_patches.held_out.flat_patches["target"])
    own = {each for each in points(both) if each[0] > 0 and each[2] < 1.0}
    common = own & points(trained, held_out.away_m)
    assert len(own) > 2000 and len(common) < 0.3 * len(own), "gravel has eleven heights, so a tenth is equal by chance"
    assert held_out.origins.shape == (2, 2, 3) == both.terrain_origins.shape
    reseeded = configured(cfg)
    reseeded.seed = 5
    assert points(generated(reseeded)) != points(both)


def test_the_grounds_are_far_apart_behind_a_wall_within_the_bounds_that_terms_compute(cfg: Any) -> None:
    from ledger_lab.training.runners.held_out_terrain import SEPARATION_M, WALL_M

    for border in (1.0, 30.0):
        cfg.border_width = border
        wide = configured(cfg)
        both = generated(wide)
        (low, high), half = both.terrain_mesh.bounds, cfg.size[0] / 2
        assert high[0] == -low[0] == pytest.approx(wide.num_rows * cfg.size[0] / 2 + border)
        nearest = both.terrain_origins[..., 0].max() + half
        assert nearest == pytest.approx(-(both.flat_patches.held_out.origins[..., 0].min() - half))
        assert -2.0 * nearest >= max(SEPARATION_M, 2.0 * border + WALL_M[0])
        corners = np.asarray(both.terrain_mesh.vertices)
        wall = corners[corners[:, 2] > 1.0]
        assert np.allclose(np.abs(wall), [WALL_M[0] / 2, cfg.size[1] + border, WALL_M[1]])


def test_a_generator_of_ones_own_makes_both_grounds(cfg: Any) -> None:
    from isaaclab.terrains import TerrainGenerator

    seeds = []

    class Own(TerrainGenerator):
        def __init__(self, cfg: Any, device: str = "cpu") -> None:
            seeds.append(cfg.seed)
            super().__init__(cfg, device)

    cfg.class_type = Own
    both = configured(cfg)
    held_out = [both.class_type(both, device="cpu").flat_patches.held_out for _ in range(2)]
    assert seeds[::2] == [0, 0] and seeds[1] == seeds[3] != 0
    assert torch.equal(held_out[0].flat_patches["target"], held_out[1].flat_patches["target"])
    assert "Own" in both.class_type.__name__, "the name is a part of the panel's identity"


def test_terrain_does_not_depend_on_the_training_seed(cfg: Any) -> None:
    trained = configured(cfg, "trained")
    assert points(generated(trained, 1)) == points(generated(trained, 2))
    cfg.seed = 0
    np.random.seed(1)
    one = points(cfg.class_type(cfg, device="cpu"))
    np.random.seed(2)
    assert one != points(cfg.class_type(cfg, device="cpu")), "its own seed does not fix it without us"


@pytest.mark.parametrize("ground", ["trained", "held_out"])
def test_terrain_does_not_depend_on_the_device(ground: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a GPU on the machine, Isaac Lab's grid of random heights would be drawn on it, on whatever device it is."""
    from isaaclab.terrains import FlatPatchSamplingCfg, MeshRandomGridTerrainCfg, TerrainGeneratorCfg

    goals = {"target": FlatPatchSamplingCfg(num_patches=2, patch_radius=0.1, max_height_diff=1.0)}
    grid = MeshRandomGridTerrainCfg(grid_width=0.45, grid_height_range=(0.05, 0.2), flat_patch_sampling=goals)
    cfg = TerrainGeneratorCfg(size=(4.0, 4.0), num_rows=1, num_cols=1, seed=3, sub_terrains={"grid": grid})
    found = []
    for has_gpu, device in ((False, "cpu"), (True, "cpu"), (True, "meta")):  # no values are needed of the last one
        monkeypatch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        generator = configured(cfg, ground)
        made = generator.class_type(generator, device=device)
        assert torch.cuda.is_available() is has_gpu
        assert made.flat_patches["target"].device.type == device
        found.append((made.terrain_mesh.vertices, made.flat_patches["target"]))
    (alone, patches), (beside_gpu, same_patches), (on_gpu, _) = found
    assert np.array_equal(alone, beside_gpu) and np.array_equal(alone, on_gpu)
    assert torch.equal(patches, same_patches)
