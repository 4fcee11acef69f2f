"""``train.py --mirror`` starts a mirror with the run, and changes nothing else."""

from __future__ import annotations

import time
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.conftest import SHORT, one_run_dir, script


def test_a_training_is_mirrored_while_it_runs(unscored: Path) -> None:
    run_dir = one_run_dir(unscored)
    deadline = time.monotonic() + 60
    while "is completed" not in (run_dir / "mirror-tensorboard.log").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    shown = EventAccumulator(str(run_dir / "tensorboard"))
    shown.Reload()
    assert [event.step for event in shown.Scalars("train/env_steps")] == [1, 2, 3]
    assert "phase/simulate_s" in shown.Tags()["scalars"]


def test_an_unknown_mirror_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    done = script("train", *SHORT, "--log_root", tmp_path, "--mirror", "tensorbord")
    assert done.returncode == 2
    assert "no mirror 'tensorbord'; did you mean 'tensorboard'?" in done.stdout + done.stderr
    assert not list(tmp_path.rglob("journal-*"))
