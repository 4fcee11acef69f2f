"""A short training improves the return of every task, on the same held-out episodes before and after."""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from ledger_lab.ledger import read_ledger
from ledger_lab.panels import find_panels
from tests.conftest import script
from tests.tasks.test_pack import PACK

TRAININGS = {
    "LedgerLab-Ant": (64, 30),
    "LedgerLab-Cartpole": (64, 15),
    "LedgerLab-Humanoid": (64, 30),
    "LedgerLab-Lift-Cube-Franka": (64, 30),
    "LedgerLab-Reach-Franka": (64, 30),
    "LedgerLab-Velocity-Flat-AnymalC": (64, 30),
    "LedgerLab-Velocity-Flat-Go2": (64, 30),
    "LedgerLab-Velocity-Rough-AnymalC": (64, 30),
}
"""Environments and iterations that are enough."""
QUICK = ("LedgerLab-Cartpole",)
EPISODES = 32


@pytest.mark.parametrize(
    "task", [task if task in QUICK else pytest.param(task, marks=pytest.mark.slow) for task in PACK]
)
def test_a_short_training_improves_the_return(task: str, tmp_path: Path) -> None:
    import ledger_lab.tasks  # noqa: F401 - registers

    exam = find_panels()[gym.spec(task).kwargs["default_panel"]].read_text()
    (tmp_path / "short.toml").write_text(re.sub(r"(?m)^count = \d+$", f"count = {EPISODES}", exam))
    envs, iterations = TRAININGS[task]
    finished = script(
        "train", "--task", task, "--panel", tmp_path / "short.toml", "--num_envs", str(envs), "--seed", "1",
        "--max_iterations", str(iterations), "--eval_every", str(iterations), "--no-stop_at_target", "--device", "cpu",
        "--log_root", tmp_path / "logs",
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    results = [row for row in read_ledger(tmp_path / "logs").runs[0].results if row.purpose == "screening"]
    before, after = (np.array(row.outcomes.episode_return, float) for row in (results[0], results[-1]))
    assert len(results) == 2
    gain = after - before
    assert gain.mean() > 5 * gain.std() / EPISODES**0.5, (before.mean(), after.mean(), gain.std())
