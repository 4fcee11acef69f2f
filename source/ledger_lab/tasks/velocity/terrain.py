"""Rough ground, generated: patches of stairs, boxes, gravel and slopes that become harder from row to row.

Robots train on all of them from the start, and more often where they sometimes fail (``curriculum``). Panels use all of
them.

All patches are height fields, so Newton uses one height field and not a mesh.
"""

import isaaclab.sim as sim_utils
from isaaclab.sim.spawners.materials import RigidBodyMaterialBaseCfg
from isaaclab.terrains import (
    HfDiscreteObstaclesTerrainCfg,
    HfInvertedPyramidSlopedTerrainCfg,
    HfInvertedPyramidStairsTerrainCfg,
    HfPyramidSlopedTerrainCfg,
    HfPyramidStairsTerrainCfg,
    HfRandomUniformTerrainCfg,
    TerrainGeneratorCfg,
    TerrainImporterCfg,
)

_STAIRS = {"step_height_range": (0.03, 0.10), "step_width": 0.4, "platform_width": 2.4, "border_width": 0.5}
_SLOPE = {"slope_range": (0.0, 0.4), "platform_width": 2.4, "border_width": 0.5}
_BOXES = {"obstacle_width_range": (0.4, 1.2), "obstacle_height_range": (0.03, 0.10), "platform_width": 2.4}


def rough_terrain() -> TerrainImporterCfg:
    """Return five levels of difficulty of six kinds of ground; equal in all simulations with held-out slots."""
    return TerrainImporterCfg(
        prim_path="/World/ground",
        terrain_type="generator",
        terrain_generator=TerrainGeneratorCfg(
            seed=0,
            curriculum=True,  # rows in the order of difficulty
            size=(8.0, 8.0),
            border_width=10.0,
            num_rows=5,
            num_cols=6,
            horizontal_scale=0.1,
            vertical_scale=0.005,
            slope_threshold=None,
            sub_terrains={
                "pyramid_stairs": HfPyramidStairsTerrainCfg(**_STAIRS),
                "pyramid_stairs_inv": HfInvertedPyramidStairsTerrainCfg(**_STAIRS),
                "boxes": HfDiscreteObstaclesTerrainCfg(**_BOXES, num_obstacles=40),
                "random_rough": HfRandomUniformTerrainCfg(noise_range=(0.02, 0.10), noise_step=0.02, border_width=0.5),
                "hf_pyramid_slope": HfPyramidSlopedTerrainCfg(**_SLOPE),
                "hf_pyramid_slope_inv": HfInvertedPyramidSlopedTerrainCfg(**_SLOPE),
            },
        ),
        max_init_terrain_level=None,
        physics_material=RigidBodyMaterialBaseCfg(static_friction=1.0, dynamic_friction=1.0),
        visual_material=sim_utils.PreviewSurfaceCfg(diffuse_color=(0.32, 0.34, 0.36)),
    )
