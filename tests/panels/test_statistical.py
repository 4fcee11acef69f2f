"""If an engine can't repeat an episode bit for bit, its scores still agree, and its episodes start alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger_lab.panels import compare_paired, load_panel
from ledger_lab.panels.physics import exactness
from tests.fakes.held_out import Trial, runtime, still, task_cfg
from tests.panels.test_leaks import balance

pytestmark = pytest.mark.thorough  # test_evaluate.py scores on OvPhysX, too
PANEL = replace(load_panel("cartpole_v1"), seeds=tuple(range(24)), episode_length_s=2.0)

_runtime = runtime("LedgerLab-Cartpole", "physics=ovphysx")


def test_scores_agree_alone_and_beside_training() -> None:
    trial = Trial(PANEL, balance, still, lambda: task_cfg(PANEL.task, "physics=ovphysx"))
    assert exactness(trial.cfg()) == "statistical"
    alone = trial.alone()
    assert 0 < alone.successes < alone.episodes, "there is something to disagree about"
    found = compare_paired(alone.success, trial.in_company(places=1).success)
    assert found.p_value > 0.01
    assert found.only_first + found.only_second <= 1, "the same starts, and nearly the same physics"
