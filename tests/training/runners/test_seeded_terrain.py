"""The ground of the training is the same for every training seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ledger_lab.panels.streams import GlobalStreams


@pytest.fixture(scope="module")
def cfg() -> Any:
    """A ground of gravel and obstacles, as a user's task may bring it."""
    from isaaclab.terrains import HfDiscreteObstaclesTerrainCfg, HfRandomUniformTerrainCfg, TerrainGeneratorCfg

    gravel = HfRandomUniformTerrainCfg(noise_range=(0.0, 0.1), noise_step=0.01)
    obstacles = HfDiscreteObstaclesTerrainCfg(
        obstacle_width_range=(0.4, 1.2), obstacle_height_range=(0.1, 0.2), num_obstacles=5
    )
    return TerrainGeneratorCfg(
        size=(4.0, 4.0), num_rows=1, num_cols=2, curriculum=True, sub_terrains={"gravel": gravel, "boxes": obstacles}
    )


def heights(cfg: Any, training_seed: int) -> np.ndarray:
    """Generate it in a training of some seed."""
    np.random.seed(training_seed)
    before = GlobalStreams()
    ground = cfg.class_type(cfg, device="cpu").terrain_mesh.vertices[:, 2].copy()
    if cfg.class_type.__name__ == "SeededTerrainGenerator":
        assert not before.moved()
    return ground


def test_terrain_does_not_depend_on_the_training_seed(cfg: Any) -> None:
    from types import SimpleNamespace

    from ledger_lab.training.runners.session import held_out_config

    task = SimpleNamespace(
        scene=SimpleNamespace(num_envs=4, env_spacing=1.0, terrain=SimpleNamespace(terrain_generator=cfg)),
        sim=SimpleNamespace(physics=None),
    )
    trained = held_out_config(task, 1, ground="trained").scene.terrain.terrain_generator  # type: ignore[arg-type]
    assert np.array_equal(heights(trained, 1), heights(trained, 2))
    cfg.seed = 0
    assert not np.array_equal(heights(cfg, 1), heights(cfg, 2)), "its own seed does not fix it without us"


@pytest.mark.parametrize("ground", ["trained", "held_out"])
def test_terrain_does_not_depend_on_the_device(ground: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a GPU on the machine, Isaac Lab's grid of random heights would be drawn on it, on whatever device it is."""
    from types import SimpleNamespace

    from isaaclab.terrains import FlatPatchSamplingCfg, MeshRandomGridTerrainCfg, TerrainGeneratorCfg

    from ledger_lab.training.runners.session import held_out_config

    goals = {"target": FlatPatchSamplingCfg(num_patches=2, patch_radius=0.1, max_height_diff=1.0)}
    grid = MeshRandomGridTerrainCfg(grid_width=0.45, grid_height_range=(0.05, 0.2), flat_patch_sampling=goals)
    cfg = TerrainGeneratorCfg(size=(4.0, 4.0), num_rows=1, num_cols=1, seed=3, sub_terrains={"grid": grid})
    task = SimpleNamespace(
        scene=SimpleNamespace(
            num_envs=4, env_spacing=1.0, terrain=SimpleNamespace(terrain_type="generator", terrain_generator=cfg)
        ),
        sim=SimpleNamespace(physics=None),
    )
    found = []
    for has_gpu, device in ((False, "cpu"), (True, "cpu"), (True, "meta")):  # no values are needed of the last one
        monkeypatch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        generator = held_out_config(task, 1, ground=ground).scene.terrain.terrain_generator  # type: ignore[arg-type]
        made = generator.class_type(generator, device=device)
        assert torch.cuda.is_available() is has_gpu
        assert made.flat_patches["target"].device.type == device
        found.append((made.terrain_mesh.vertices, made.flat_patches["target"]))
    (alone, patches), (beside_gpu, same_patches), (on_gpu, _) = found
    assert np.array_equal(alone, beside_gpu) and np.array_equal(alone, on_gpu)
    assert torch.equal(patches, same_patches)
