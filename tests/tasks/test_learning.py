"""A short training improves the return, on the same held-out episodes before and after."""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from ledger_lab.ledger import read_ledger
from ledger_lab.panels import find_panels
from tests.conftest import script

SHORT = {
    "LedgerLab-Ant": (128, 10),
    "LedgerLab-Cartpole": (64, 15),
    "LedgerLab-Humanoid": (512, 20),
    "LedgerLab-Lift-Cube-Franka": (512, 16),
    "LedgerLab-Navigation-Flat-AnymalC": (256, 8),
    "LedgerLab-Reach-Franka": (128, 8),
    "LedgerLab-Velocity-Flat-AnymalC": (512, 100),
    "LedgerLab-Velocity-Flat-Go2": (512, 130),
    "LedgerLab-Velocity-Rough-AnymalC": (512, 26),
}
"""Environments and iterations that are enough for the held-out return, which knows no noise, to rise."""
EPISODES = 128


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("task", SHORT)
def test_a_short_training_improves_the_return(task: str, tmp_path: Path) -> None:
    import ledger_lab.tasks.registered  # noqa: F401 - registers

    registered = gym.spec(task).kwargs
    panel = find_panels()[registered["default_panel"]].read_text()
    (tmp_path / "short.toml").write_text(re.sub(r"(?m)^count = \d+$", f"count = {EPISODES}", panel))
    envs, iterations = SHORT[task]
    finished = script(
        "train", "--task", task, "--panel", tmp_path / "short.toml", "--num_envs", str(envs), "--seed", "1",
        "--max_iterations", str(iterations), "--eval_every", str(iterations), "--no_stop_at_target", "--target", "0.5",
        "--device", "cpu", "--log_root", tmp_path / "logs",
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    first, last = (row.outcomes for row in read_ledger(tmp_path / "logs").runs[0].results if row.purpose == "check")
    gain = np.array(last.episode_return, float) - np.array(first.episode_return, float)
    print(f"{task}: each of {len(gain)} episodes gains {gain.mean():.3g} ± {gain.std():.3g}")
    assert gain.mean() > 5 * gain.std() / EPISODES**0.5
