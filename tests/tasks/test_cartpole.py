"""The assets are what the script writes, and what the task needs; a pole that stands is told from one that leans."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pxr import Usd, UsdPhysics

from ledger_lab.panels import load_panel
from ledger_lab.tasks.assets import ASSET_ROOT, CARTPOLE_USD
from tests.conftest import ROOT
from tests.fakes.robots import ENGINES, shaken, simulated

PANEL = load_panel("cartpole_v1")
TOLERANCE_RAD = PANEL.success_params["tolerance_rad"]


@pytest.mark.thorough  # assets change seldom
def test_the_committed_assets_are_what_the_script_writes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "tools.assets.build", "--output", str(tmp_path)], check=True, cwd=ROOT)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == sorted(path.name for path in ASSET_ROOT.iterdir())
    for name in written:
        assert (tmp_path / name).read_text() == (ASSET_ROOT / name).read_text()


def test_bodies_are_flat_and_have_mass_joints_and_one_root() -> None:
    stage = Usd.Stage.Open(str(CARTPOLE_USD))
    masses = {
        prim.GetName(): UsdPhysics.MassAPI(prim).GetMassAttr().Get()
        for prim in stage.GetDefaultPrim().GetChildren()
        if prim.HasAPI(UsdPhysics.RigidBodyAPI)
    }
    assert masses == {"rail": 1.0, "cart": 1.0, "pole": 1.0}
    joints = {prim.GetName(): prim.GetTypeName() for prim in stage.Traverse() if prim.IsA(UsdPhysics.Joint)}
    assert joints == {
        "world_to_rail": "PhysicsFixedJoint",
        "slider_to_cart": "PhysicsPrismaticJoint",
        "cart_to_pole": "PhysicsRevoluteJoint",
    }
    assert [p.GetPath() for p in stage.Traverse() if p.HasAPI(UsdPhysics.ArticulationRootAPI)] == ["/Cartpole"]
    inertia = UsdPhysics.MassAPI(stage.GetPrimAtPath("/Cartpole/pole")).GetDiagonalInertiaAttr().Get()
    assert inertia[0] == pytest.approx((0.06**2 + 1.0**2) / 12, rel=1e-5)


def test_assets_need_no_network() -> None:
    for path in ASSET_ROOT.iterdir():
        assert "http" not in path.read_text()


@pytest.mark.parametrize("physics", ENGINES)
def test_a_pole_stands_within_the_tolerance_and_a_cart_off_the_rail_has_failed(physics: str) -> None:
    from ledger_lab.panels.predicate import resolve_success

    cart_m = torch.tensor([0.0, 0.0, 0.0, 0.0, 2.9, -3.1, 0.0])
    pole_rad = torch.tensor([0.0, 0.95 * TOLERANCE_RAD, -1.05 * TOLERANCE_RAD, 3.1, 0.0, 0.0, 2.0 * math.pi])
    with simulated(PANEL.task, physics, len(cart_m)) as env:
        shaken(env).check(observations=4, actions=1)
        env.reset()
        base, robot = env.unwrapped, env.unwrapped.scene["robot"]
        cart, pole = (robot.joint_names.index(name) for name in ("slider_to_cart", "cart_to_pole"))
        state = torch.zeros(len(cart_m), 2)
        robot.write_joint_velocity_to_sim_index(velocity=state)
        state[:, cart], state[:, pole] = cart_m, pole_rad
        robot.write_joint_position_to_sim_index(position=state)
        stands = resolve_success(PANEL)(base, **PANEL.success_params).tolist()
        env.step(torch.zeros(len(cart_m), 1))
        left = base.termination_manager.get_term("cart_out_of_bounds").tolist()
    assert stands == [True, True, False, False, True, True, False], "a whole turn does not count as upright"
    assert left == [False] * 5 + [True, False]
