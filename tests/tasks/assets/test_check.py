"""Assets that are missing, out of reach, damaged or not the robot that the task means are refused before training."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from pxr import Sdf

import ledger_lab.tasks.registered  # noqa: F401 - registers
from ledger_lab.errors import UserError
from ledger_lab.tasks.assets import ANT_USD, ASSET_ROOT, CARTPOLE_USD, DESCRIPTIONS, HUMANOID_USD
from ledger_lab.tasks.assets.hashes import HASHES
from tests.conftest import script

PACK = sorted(name.removeprefix("LedgerLab-") for name in gym.registry if name.startswith("LedgerLab-"))


def configured(task: str, *overrides: str) -> Any:
    """Return the configuration of a task's environment."""
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs

    registered_tasks()
    return resolve_configs(f"LedgerLab-{task}", "rsl_rl", list(overrides))[0]


def refused(env_cfg: Any) -> str:
    """Return in which words the assets of an environment are refused."""
    from ledger_lab.tasks.assets.check import require_assets

    with pytest.raises(UserError) as caught:
        require_assets(env_cfg)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("task", PACK)
def test_the_pack_is_whole(task: str) -> None:
    from ledger_lab.tasks.assets.check import require_assets

    require_assets(configured(task))


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what is shipped, in its place."""
    from ledger_lab.tasks.assets import check

    folder = shutil.copytree(ASSET_ROOT, tmp_path / "usd")
    monkeypatch.setattr(check, "ASSET_ROOT", folder)
    return folder


@pytest.mark.parametrize("state", ["missing", "damaged"])
def test_a_changed_shipped_file_is_refused(shipped: Path, state: str) -> None:
    from ledger_lab.tasks.assets.check import require_assets

    env_cfg = configured("Ant", f"env.scene.robot.spawn.usd_path={shipped / ANT_USD.name}")
    require_assets(env_cfg)
    ant = shipped / ANT_USD.name
    text = ant.read_text()
    if state == "missing":
        ant.unlink()
    else:
        ant.write_text(text.replace("0.08", "0.09", 1))  # still a robot, but another one
    assert re.search(
        rf"env.scene.robot.spawn.usd_path: .*ant.usda is {state}: install LedgerLab again, or, .*assets.build",
        refused(env_cfg),
    )


def test_sha256sum_accepts_the_hashes() -> None:
    import subprocess

    subprocess.run(["sha256sum", "--check", "--strict", HASHES], cwd=ASSET_ROOT, check=True, capture_output=True)


@pytest.mark.parametrize("field", ["robot", "ground"])
@pytest.mark.parametrize("name", ["torn.usda", "torn.usdc", "torn.usd", "page.usd"])
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, field: str) -> None:
    file = tmp_path / name
    binary = tmp_path / "whole.usdc"
    Sdf.Layer.OpenAsAnonymous(str(CARTPOLE_USD)).Export(str(binary))
    whole = {".usda": CARTPOLE_USD.read_bytes(), ".usdc": binary.read_bytes(), ".usd": binary.read_bytes()}
    file.write_bytes(b"<html>404</html>" if name.startswith("page") else whole[file.suffix][:1000])
    assert re.search(rf"{field}.spawn.usd_path: .*{name} cannot be read as a USD file: ", refused(
        configured("Cartpole", f"env.scene.{field}.spawn.usd_path={file}")))  # fmt: skip


@pytest.mark.slow  # Isaac Lab's client takes half a minute to give up
def test_a_file_on_the_web_without_a_network_is_refused(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/robot.usd"
    finished = script("train", f"env.scene.robot.spawn.usd_path={url}", "--log_root", tmp_path / "logs")
    assert finished.returncode == 2
    complaint = f"error: env.scene.robot.spawn.usd_path: {url} cannot be downloaded, and this machine has no copy: "
    assert finished.stderr.startswith(complaint) and finished.stderr.count("\n") == 1, finished.stderr
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("place", "joints", "complaint"),
    [
        (
            "actions.cart_force.joint_names",
            ["slider_to_card"],
            "called 'slider_to_card': did you mean 'slider_to_cart'",
        ),
        ("scene.robot.actuators.pole.joint_names_expr", ["po.*"], "called 'po.*': known: cart_to_pole, slider_to_cart"),
        ("rewards.pole_pos.params.asset_cfg.joint_names", ["pole"], "called 'pole': did you mean 'cart_to_pole'"),
        ("scene.robot.init_state.joint_pos", {"cart": 0.0, ".*": 0.0}, "called 'cart': "),
    ],
)
def test_a_robot_without_a_joint_that_the_task_names_is_refused(place: str, joints: Any, complaint: str) -> None:
    env_cfg = configured("Cartpole")
    *groups, name = place.split(".")
    node = env_cfg
    for group in groups:
        node = node[group] if isinstance(node, dict) else getattr(node, group)
    setattr(node, name, joints)
    assert refused(env_cfg).startswith(f"env.{place}: no joint of cartpole.usda is {complaint}")


def test_another_robot_in_place_of_the_task_s_is_refused() -> None:
    said = refused(configured("Cartpole", f"env.scene.robot.spawn.usd_path={HUMANOID_USD}"))
    assert said.startswith("env.scene.robot.init_state.joint_pos: no joint of humanoid.usda is called 'slider_to_cart'")


@pytest.mark.thorough  # the check itself is tested above
def test_a_refusal_is_one_line_with_status_2_before_anything_is_written(tmp_path: Path) -> None:
    finished = script("train", "env.scene.robot.spawn.usd_path=/absent.usda", "--log_root", tmp_path / "logs")
    assert finished.returncode == 2
    assert re.fullmatch(
        r"error: env.scene.robot.spawn.usd_path: file /absent.usda does not exist: .*\n", finished.stderr
    )
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("name", "complaint"), [("go2.urdf", "no readable URDF .*"), ("looks.glb", "no readable meshes .*")]
)
def test_the_build_reports_a_damaged_description(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, complaint: str
) -> None:
    from tools.assets import build, robots

    folder = shutil.copytree(DESCRIPTIONS, tmp_path / "descriptions")
    torn = folder / "go2" / name
    torn.write_bytes(torn.read_bytes()[:500])
    monkeypatch.setattr(robots, "DESCRIPTIONS", folder)
    assert build.main(["--output", str(tmp_path / "usd")]) == 2
    assert re.fullmatch(rf"error: {torn}: {complaint}\n", capsys.readouterr().err)
    assert not (tmp_path / "usd").exists()


def test_a_mesh_that_its_picture_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tools.assets import robots

    monkeypatch.setattr(robots, "read_looks", lambda path: {})
    with pytest.raises(UserError, match=r"looks.glb: has no mesh \w+: write it again"):
        robots.write("go2", tmp_path / "go2.usda")
