"""Simulated trainings: steady policies give no event of reward hacking, and a collapse gives one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.reward_hacking import Scenario, examine

STEADY = Scenario(success=0.8, later=0.8, seeds=32, cells=4, likeness=0.5, within=1.0)


def test_drawn_outcomes_have_the_true_success() -> None:
    generator = np.random.default_rng(1)
    drawn = np.array([replace(STEADY, later=0.3).draw(generator) for _ in range(200)])
    assert drawn.shape == (200, 50, 128)
    assert drawn[:, :25].mean() == pytest.approx(0.8, abs=0.02)
    assert drawn[:, 25:].mean() == pytest.approx(0.3, abs=0.02)


def test_steady_policies_are_not_reported_although_pooled_episodes_would_report_them() -> None:
    found = examine(STEADY, 40, np.random.default_rng(1))
    assert found.reported == 0
    assert found.reported_by_pooling > 5


def test_a_collapse_is_reported() -> None:
    found = examine(replace(STEADY, seeds=128, cells=1, later=0.4), 20, np.random.default_rng(1))
    assert found.reported == 20
