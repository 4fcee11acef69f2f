"""Aggregates over tasks agree with those of rliable.

The reference figures were computed by ``metrics.py`` and ``library.py`` of https://github.com/google-research/rliable
at commit 3ccd9f4 (version 1.2.0), from the scores below.
"""

from __future__ import annotations

import numpy as np
import pytest

from ledger_lab.studies.across_tasks import (
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
    stratified_interval,
)

# One row per run, one column per task, as rliable takes them.
X = np.array([[0.9, 0.2, 0.55], [0.75, 0.35, 0.55], [1.0, 0.0, 0.6], [0.8, 0.25, 0.4], [0.95, 0.3, 0.7]]).T
Y = np.array([[0.6, 0.25, 0.55], [0.7, 0.35, 0.5], [0.85, 0.1, 0.45], [0.65, 0.0, 0.6], [0.75, 0.4, 0.35]]).T


def test_the_figures_are_those_of_rliable() -> None:
    assert interquartile_mean([*X]) == pytest.approx(0.5555555555555555)
    assert interquartile_mean([*Y]) == pytest.approx(0.49444444444444446)
    assert probability_of_improvement([*X], [*Y]) == pytest.approx(0.6866666666666666)
    assert probability_of_improvement([*Y], [*X]) == pytest.approx(0.3133333333333333)
    assert probability_of_improvement([*X], [*X]) == 0.5
    profile = [float(performance_profile([*X], threshold)) for threshold in (0.0, 0.25, 0.5, 0.55, 0.9)]
    assert profile == pytest.approx([0.9333333333333333, 0.8, 0.6, 0.4666666666666667, 0.13333333333333333])


def test_runs_are_resampled_within_their_task() -> None:
    # Each task has one score only, so no resample differs; runs of both tasks together would.
    assert stratified_interval(interquartile_mean, [np.full(5, 0.2), np.full(5, 0.8)]) is None
    interval = stratified_interval(interquartile_mean, [*X])
    assert interval is not None
    low, high = interval
    assert X.min() < low < 0.5555 < high < X.max()


def test_an_arm_that_is_better_in_every_run_has_no_interval() -> None:
    assert stratified_interval(probability_of_improvement, [*(X + 2)], [*Y]) is None
