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


def test_a_missing_file_is_refused() -> None:
    said = refused(configured("Cartpole", "env.scene.robot.spawn.usd_path=/absent.usda"))
    assert said.startswith("env.scene.robot.spawn.usd_path: file /absent.usda does not exist: name another file with ")


@pytest.mark.parametrize(("field", "name"), [("robot", "torn.usda"), ("ground", "torn.usdc"), ("robot", "page.usd")])
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, field: str) -> None:
    file = tmp_path / name
    binary = tmp_path / "whole.usdc"
    Sdf.Layer.OpenAsAnonymous(str(CARTPOLE_USD)).Export(str(binary))
    whole = {".usda": CARTPOLE_USD.read_bytes(), ".usdc": binary.read_bytes(), ".usd": b""}
    file.write_bytes(b"<html>404</html>" if name.startswith("page") else whole[file.suffix][:1000])
    said = refused(configured("Cartpole", f"env.scene.{field}.spawn.usd_path={file}"))
    assert said.startswith(f"env.scene.{field}.spawn.usd_path: {file} ")
    assert "cannot be read as a USD file: " in said or "is damaged, or is no USD file: " in said


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
