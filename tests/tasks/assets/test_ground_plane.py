"""A flat terrain of Isaac Lab is simulated on LedgerLab's ground, with the friction that the terrain asks for."""

from __future__ import annotations

import pytest


def test_a_flat_terrain_is_made_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    import isaaclab.sim as sim_utils
    from isaaclab.sim.utils.stage import get_current_stage
    from isaaclab.terrains import TerrainImporterCfg
    from isaaclab.utils import assets
    from pxr import UsdPhysics, UsdShade

    from ledger_lab.tasks.assets.local import use_local_ground
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.session import environment, simulation_app

    def ask_the_network(path: str) -> None:
        raise AssertionError(f"the network was asked for {path}")

    monkeypatch.setattr(assets, "_remote_fingerprint", ask_the_network)
    registered_tasks()
    env_cfg, _ = resolve_configs("LedgerLab-Cartpole", "rsl_rl", [])
    env_cfg.sim.device, env_cfg.scene.num_envs = "cpu", 4
    env_cfg.scene.ground = TerrainImporterCfg(
        prim_path="/World/ground",
        terrain_type="plane",
        physics_material=sim_utils.RigidBodyMaterialCfg(static_friction=0.7, dynamic_friction=0.6),
    )
    use_local_ground(env_cfg)
    with simulation_app(env_cfg, {"device": "cpu"}), environment("LedgerLab-Cartpole", env_cfg) as env:
        terrain = env.unwrapped.scene.terrain
        assert type(terrain).__name__ == "LocalPlaneImporter"
        assert terrain.terrain_prim_paths == ["/World/ground/terrain"]
        assert terrain.env_origins.shape == (4, 3)
        stage = get_current_stage()
        plane = stage.GetPrimAtPath("/World/ground/terrain/collision")
        assert plane.HasAPI(UsdPhysics.CollisionAPI)
        material, _ = UsdShade.MaterialBindingAPI(plane).ComputeBoundMaterial("physics")
        friction = UsdPhysics.MaterialAPI(material.GetPrim())
        assert friction.GetStaticFrictionAttr().Get() == pytest.approx(0.7)
        assert friction.GetDynamicFrictionAttr().Get() == pytest.approx(0.6)
