"""Assets that are missing, out of reach or damaged are refused before training."""

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
from ledger_lab.tasks.assets import CARTPOLE_USD, DESCRIPTIONS
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
    from ledger_lab.tasks.assets.local import require_files

    with pytest.raises(UserError) as caught:
        require_files(env_cfg)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("task", PACK)
def test_the_pack_is_whole(task: str) -> None:
    from ledger_lab.tasks.assets.local import require_files

    require_files(configured(task))


@pytest.mark.parametrize("field", ["robot", "ground"])
@pytest.mark.parametrize("name", ["torn.usda", "torn.usdc", "torn.usd", "page.usd"])
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, field: str) -> None:
    file = tmp_path / name
    binary = tmp_path / "whole.usdc"
    Sdf.Layer.OpenAsAnonymous(str(CARTPOLE_USD)).Export(str(binary))
    whole = {".usda": CARTPOLE_USD.read_bytes(), ".usdc": binary.read_bytes(), ".usd": binary.read_bytes()}
    file.write_bytes(b"<html>404</html>" if name.startswith("page") else whole[file.suffix][:1000])
    said = refused(configured("Cartpole", f"env.scene.{field}.spawn.usd_path={file}"))
    assert said.startswith(f"env.scene.{field}.spawn.usd_path: {file} ")
    assert "cannot be read as a USD file: " in said or "is damaged, or is no USD file: " in said


@pytest.mark.slow  # Isaac Lab's client takes half a minute to give up
def test_a_file_on_the_web_without_a_network_is_refused(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/robot.usd"
    finished = script("train", f"env.scene.robot.spawn.usd_path={url}", "--log_root", tmp_path / "logs")
    assert finished.returncode == 2
    complaint = f"error: env.scene.robot.spawn.usd_path: {url} cannot be downloaded, and this machine has no copy: "
    assert finished.stderr.startswith(complaint) and finished.stderr.count("\n") == 1, finished.stderr
    assert not (tmp_path / "logs").exists()


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
