"""Trained ground and held-out ground of a task with generated terrain, as configurations and identities name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

type Ground = Literal["held_out", "trained"]
"""Ground of held-out episodes: patches that no training uses, or the patches of the training."""

HELD_OUT_GENERATOR = "ledger_lab.training.runners.held_out_terrain"
"""Module of the generators that add held-out ground to the ground of the training."""
TRAINED_GENERATOR = "SeededTerrainGenerator"
"""The generator in that module that adds none."""


def generated_terrain(env_cfg: ManagerBasedRLEnvCfg) -> Any:
    """Return the configuration of a terrain that has a generator; ``None`` if the scene has no such terrain.

    Args:
        env_cfg: Configuration of the environment.
    """
    parts = vars(env_cfg.scene).values()
    return next((part for part in parts if getattr(part, "terrain_generator", None) is not None), None)


def has_held_out_ground(env_cfg: ManagerBasedRLEnvCfg) -> bool:
    """Tell whether the simulation of a configuration has held-out ground beside the ground of the training.

    Args:
        env_cfg: Configuration of the environment.
    """
    if (terrain := generated_terrain(env_cfg)) is None:
        return False
    kind = terrain.terrain_generator.class_type
    return kind.__module__ == HELD_OUT_GENERATOR and kind.__name__ != TRAINED_GENERATOR


def declared_ground(panel_fields: Mapping[str, Any]) -> Ground:
    """Return the ground of the held-out episodes of a run; older versions used the ground of the training.

    Args:
        panel_fields: Fields of the identity that the run declared.
    """
    return "held_out" if "ground" in panel_fields else "trained"
