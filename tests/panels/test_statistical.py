"""If an engine can't repeat an episode bit for bit, its scores still agree, and its episodes start alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ledger_lab.panels import compare_paired, load_panel
from ledger_lab.panels.physics import exactness
from tests.fakes.held_out import Trial, still
from tests.panels.test_leaks import balance

pytestmark = pytest.mark.thorough  # test_evaluate.py scores on OvPhysX, too
PANEL = replace(load_panel("cartpole_v1"), seeds=tuple(range(24)), episode_length_s=2.0)


def ovphysx_cfg() -> Any:
    from ledger_lab.training.runners.configs import resolve_configs

    cfg, _ = resolve_configs("LedgerLab-Cartpole", "rsl_rl", ["physics=ovphysx"])
    cfg.sim.device = "cpu"
    return cfg


@pytest.fixture(scope="module", autouse=True)
def _runtime() -> Iterator[None]:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.session import simulation_app

    registered_tasks()
    with simulation_app(ovphysx_cfg(), {"device": "cpu"}):
        yield


def test_scores_agree_alone_and_beside_training() -> None:
    trial = Trial(PANEL, balance, still, ovphysx_cfg)
    assert exactness(ovphysx_cfg()) == "statistical"
    alone = trial.alone()
    assert 0 < alone.successes < alone.episodes, "there is something to disagree about"
    found = compare_paired(alone.success, trial.in_company(places=1).success)
    assert found.p_value > 0.01
    assert found.only_first + found.only_second <= 1, "the same starts, and nearly the same physics"
