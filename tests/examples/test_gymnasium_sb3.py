"""The example really trains, and its run stands in the report beside those of Isaac Lab."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ledger_lab.ledger import Status
from tests.conftest import ROOT, one_run_dir, script
from tests.fakes.ledgers import write_run


@pytest.mark.thorough  # it trains to the target
def test_a_trainer_of_another_framework_is_reported_beside_isaac_lab(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", scores=(5, 9), proof=9, status=Status.TARGET_REACHED, cohort=None)
    example = [sys.executable, ROOT / "docs/examples/gymnasium_sb3.py", "--log_root", tmp_path, "--usd_per_hour", "3.6"]
    done = subprocess.run([*example, "--max_iterations", "40"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = {
        run["rl_library"]: run
        for run in json.loads(script("report", "--log_root", tmp_path, "--json", "-").stdout)["runs"]
    }
    assert set(runs) == {"rsl_rl", "stable_baselines3"}
    run = runs["stable_baselines3"]
    assert run["status"] == "target_reached"
    assert run["heldout_episodes"] % 128 == 0, "a near miss is extended by whole panels"
    assert run["heldout_successes"] >= 0.9 * run["heldout_episodes"]
    assert {"startup", "simulate", "infer", "learn", "evaluate", "checkpoint"} <= set(run["phases"])
    assert sum(run["phases"].values()) == pytest.approx(run["wall_s"])
    assert run["billable_usd"] >= run["wall_s"] * 0.001
    assert run["env_steps"] % 2048 == 0
    assert script("verify_ledger", "--log_root", one_run_dir(tmp_path / "stable_baselines3")).returncode == 0
    table = script("report", "--log_root", tmp_path).stdout
    assert "panel gymnasium_cartpole" in table
    assert "stable_baselines3" in table
