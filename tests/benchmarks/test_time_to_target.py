"""Medians of both recipes count the trainings that missed the target."""

from __future__ import annotations

from benchmarks.time_to_target import Training, _median, _medians


def training(arm: str, seed: int, wall_s: float, to_target_s: float | None) -> Training:
    return Training(
        arm=arm, seed=seed, target_reached=to_target_s is not None, to_target_s=to_target_s,
        after_startup_s=None if to_target_s is None else to_target_s - 10.0, wall_s=wall_s, startup_s=10.0,
        iterations=1, proofs=1,
    )  # fmt: skip


def test_a_training_that_ended_early_makes_the_median_an_estimate() -> None:
    trainings = [training("tuned", 1, 40.0, 40.0), training("tuned", 2, 15.0, None), training("tuned", 3, 50.0, 50.0)]
    trainings += [training("stock", 1, 90.0, 90.0), training("stock", 2, 99.0, None)]
    found = _medians(trainings, "to_target_s")
    assert {arm: _median(median) for arm, median in found.items()} == {"tuned": "≈ 45.0 s", "stock": "> 94.5 s"}
    assert _median(_medians(trainings, "after_startup_s")["tuned"]) == "≈ 35.0 s"
    assert _median(_medians(trainings, "after_startup_s")["stock"]) == "> 84.5 s"
