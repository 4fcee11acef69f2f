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

TRAININGS = {"LedgerLab-Cartpole": (64, 15), "LedgerLab-Ant": (128, 10), "LedgerLab-Reach-Franka": (128, 8)}
"""Environments and iterations that are enough."""
EPISODES = 32


@pytest.mark.slow
@pytest.mark.parametrize("task", TRAININGS)
def test_a_short_training_improves_the_return(task: str, tmp_path: Path) -> None:
    import ledger_lab.tasks  # noqa: F401 - registers

    exam = find_panels()[gym.spec(task).kwargs["default_panel"]].read_text()
    (tmp_path / "short.toml").write_text(re.sub(r"(?m)^count = \d+$", f"count = {EPISODES}", exam))
    envs, iterations = TRAININGS[task]
    finished = script(
        "train", "--task", task, "--panel", tmp_path / "short.toml", "--num_envs", str(envs), "--seed", "1",
        "--max_iterations", str(iterations), "--eval_every", str(iterations), "--no-stop_at_target", "--target", "0.5",
        "--device", "cpu", "--log_root", tmp_path / "logs",
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    results = [row for row in read_ledger(tmp_path / "logs").runs[0].results if row.purpose == "screening"]
    before, after = (np.array(row.outcomes.episode_return, float) for row in (results[0], results[-1]))
    assert len(results) == 2
    gain = after - before
    print(f"{task}: {before.mean():.3g} to {after.mean():.3g}, each gains {gain.mean():.3g} ± {gain.std():.3g}")
    assert gain.mean() > 5 * gain.std() / EPISODES**0.5, (before.mean(), after.mean(), gain.std())
