"""``train.py --logger`` starts a logger with the run, and changes nothing else."""

from __future__ import annotations

import time
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.conftest import one_run_dir


def test_a_training_is_logged_while_it_runs(unscored: Path) -> None:
    run_dir = one_run_dir(unscored)
    deadline = time.monotonic() + 60
    while "is completed" not in (run_dir / "logger-tensorboard.log").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    shown = EventAccumulator(str(run_dir / "tensorboard"))
    shown.Reload()
    assert [event.step for event in shown.Scalars("train/env_steps")] == [1, 2, 3]
    assert "phase/simulate_s" in shown.Tags()["scalars"]
