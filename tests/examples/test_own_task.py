"""The example package is installed, trained to its target, exported and run elsewhere, as its README says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger_lab.ledger import Status, read_ledger
from ledger_lab.reports import summarize_run
from tests.conftest import ROOT, script

EXAMPLE = ROOT / "docs" / "examples" / "own_task"
TASK = "Pendulum-SwingUp-v0"
ELSEWHERE = """
import runpy, sys
sys.modules.update(dict.fromkeys(["isaaclab", "ledger_lab", "torch"]))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The package, installed where only the programs that these tests start look for it."""
    tree, site = tmp_path_factory.mktemp("own") / "own_task", tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLE, tree, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(tree)], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
        yield


def test_the_installed_task_is_listed_with_its_engines_and_its_panel() -> None:
    listed = script("list_envs", "--long", "--keyword", TASK)
    assert listed.returncode == 0, listed.stderr
    shown = " ".join(listed.stdout.split())
    assert shown.startswith(f"{TASK} libraries rsl_rl, rl_games, skrl physics newton_mjwarp, newton_mujoco, ovphysx")
    assert re.search(r"panel pendulum_v1: 90 % of 256, p1-\w+…", shown), shown
    assert "--long also lists the tasks of" in script("list_envs").stdout


def test_each_library_takes_the_recipe(tmp_path: Path) -> None:
    """The panel is refused, after the configurations of task and agent were accepted and before anything is written."""
    for library in ("rsl_rl", "rl_games", "skrl"):
        asked = ("--task", TASK, "--rl_library", library, "--target", "1", "--device", "cpu")
        refused = script("train", *asked, "--log_root", tmp_path / "logs")
        assert refused.returncode == 2
        assert "256 episodes are too few to prove a success of 1" in refused.stderr
    assert not (tmp_path / "logs").exists()


def test_the_tutorial_shows_or_names_every_file() -> None:
    tutorial = (ROOT / "docs" / "tutorials" / "own_task.md").read_text(encoding="utf-8")
    files = {path.relative_to(EXAMPLE) for path in EXAMPLE.rglob("*") if path.is_file()}
    made = {path for path in files if any(re.search("^build$|egg-info$|^__pycache__$", part) for part in path.parts)}
    assert [path for path in files - made - {Path("README.md")} if path.name not in tutorial] == []


@pytest.mark.slow
def test_a_policy_is_proven_exported_and_run_elsewhere(tmp_path: Path) -> None:
    logs, exported = tmp_path / "logs", tmp_path / "policy"
    trained = script("train", "--task", TASK, "--device", "cpu", "--seed", "42", "--log_root", logs)
    assert trained.returncode == 0, trained.stdout + trained.stderr
    (run,) = read_ledger(logs).runs
    assert run.attempts[-1].status is Status.TARGET_REACHED
    run_id = run.declared.run_id

    written = script("export_policy", run_id, "--to", exported, "--log_root", logs)
    assert written.returncode == 0, written.stdout + written.stderr
    program = [sys.executable, "-c", ELSEWHERE, str(EXAMPLE / "run_elsewhere.py"), str(exported)]
    elsewhere = subprocess.run(program, capture_output=True, text=True, check=False)
    assert elsewhere.returncode == 0, elsewhere.stderr
    upright = re.fullmatch(r"(\d+) of 64 pendulums stand upright after 5 s\n", elsewhere.stdout)
    assert upright is not None and int(upright[1]) >= 58

    proven = summarize_run(run).proven
    assert proven is not None
    checkpoint = run.directory / proven.path
    scored = script("evaluate", checkpoint, "--sim", "physics=ovphysx", "--device", "cpu", "--log_root", logs)
    assert scored.returncode == 0, scored.stdout + scored.stderr
    other = re.search(r"physics=ovphysx · overall.* (\d+)/256 ", scored.stdout)
    assert other is not None and int(other[1]) >= 230, scored.stdout
