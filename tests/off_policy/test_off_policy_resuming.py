"""SAC and TD3 resume: with their replay memory as the same training, and without it after they have refilled it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fakes.off_policy import LEARNERS, OPTIONS, Training, learned, require_same_learner

each_learner = pytest.mark.parametrize(("library", "algorithm"), LEARNERS)


def normalized(library: str, algorithm: str, run_dir: Path, iterations: int) -> Training:
    """Return a training with normalized observations."""
    return Training(algorithm, run_dir, library=library, iterations=iterations, observation_normalization=True)


@each_learner
def test_a_resumed_training_keeps_the_learner_and_refills(library: str, algorithm: str, tmp_path: Path) -> None:
    trained = normalized(library, algorithm, tmp_path / "trained", 3)
    trained.train()
    torch.save(trained.trainer.state(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    again = normalized(library, algorithm, tmp_path / "again", 5)
    again.trainer.restore(state)
    kept = again.trainer.state()
    assert kept.keys() == state.keys()
    for name, part in state.items():
        for key, value in part.items() if isinstance(part, dict) else ():
            if isinstance(value, torch.Tensor):
                assert torch.equal(kept[name][key], value), f"{name} {key}"
    assert len(again.trainer.replay) == 0
    again.train()
    assert list(again.heard.figures) == [4, 5]
    assert "value_loss" not in again.heard.figures[4], "waits until the memory has refilled"
    assert "value_loss" in again.heard.figures[5]
    done = normalized(library, algorithm, tmp_path / "done", 3)
    done.trainer.restore(state)
    done.train()
    assert not done.heard.figures, "nothing is left to train"


@each_learner
def test_a_training_that_is_resumed_near_its_end_still_learns(library: str, algorithm: str, tmp_path: Path) -> None:
    begun, again = (Training(algorithm, tmp_path / name, library=library, iterations=4) for name in ("begun", "again"))
    begun.heard.stop_after = 3
    begun.train()
    again.trainer.restore(begun.trainer.state())
    again.train()
    (last,) = again.heard.figures.values()
    assert last["replay_fill"] == pytest.approx(1 / 3), "16 steps are left, fewer than the 20 before the first update"
    assert {"value_loss", "learning_rate"} <= set(last)


@each_learner
def test_a_training_resumed_with_its_replay_memory_is_the_same_training(
    library: str, algorithm: str, tmp_path: Path
) -> None:
    recipe: dict[str, Any] = {
        "iterations": 5,
        "observation_normalization": True,
        "random_steps": 20,
        "library": library,
        **(OPTIONS if algorithm == "td3" else {}),
    }
    whole = Training(algorithm, tmp_path / "whole", **recipe)
    whole.train()
    begun = Training(algorithm, tmp_path / "begun", **recipe)
    begun.heard.stop_after = 3
    begun.train()
    resumed = Training(algorithm, tmp_path / "resumed", **recipe)
    resumed.go_on_from(begun)
    resumed.train()
    require_same_learner(resumed, whole)
    assert {**learned(begun), **learned(resumed)} == learned(whole)


@each_learner
def test_a_memory_that_still_refills_goes_on_refilling_after_another_interruption(
    library: str, algorithm: str, tmp_path: Path
) -> None:
    def first_update(training: Training) -> int:
        return training.agent.cfg.learning_starts if library == "skrl" else training.trainer._first_update

    begun, refilling, again = (
        Training(algorithm, tmp_path / str(number), library=library, iterations=4) for number in range(3)
    )
    begun.heard.stop_after = 1
    begun.train()
    refilling.trainer.restore(begun.trainer.state())
    assert first_update(refilling) == 16 + 20
    again.trainer.replay.restore(begun.trainer.replay.state())
    again.trainer.restore(refilling.trainer.state())
    assert first_update(again) == 16 + 20, "counted from the first interruption"
