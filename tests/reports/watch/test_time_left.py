"""The time that a run has left: from earlier runs on condition that it came this far, else a bound, else nothing."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.time_left import ForecastScenario, Scenario, cover, cover_forecast
from ledger_lab.ledger import AttemptStarted, Journal, StateRestored, Status, read_ledger
from ledger_lab.ledger.costs.time_to_target import RunTime
from ledger_lab.reports.watch.progress import (
    seconds_to_end,
    seconds_to_last_iteration,
    settings_of,
    time_left,
    time_to_end,
)
from tests.fakes.ledgers import SECOND, declared, window
from tests.fakes.watched import STATE, make_run

RESTORED = {
    "sha256": hashlib.sha256(STATE).hexdigest(),
    "attempt": 1,
    "saved_wall_ns": 60 * SECOND,
    "iteration": 25,
    "env_steps": 1000,
    "reasons": [],
}


def reached(*times_s: float) -> list[RunTime]:
    return [RunTime(wall_s=each, to_target_s=each) for each in times_s]


def test_earlier_runs_that_were_faster_say_nothing_about_a_run_that_came_further() -> None:
    nine = reached(*range(100, 1000, 100))
    found = time_left(nine, 0.0, None)
    assert found is not None
    assert (found.low, found.expected, found.high) == (100.0, 500.0, 900.0), "80 % lie between the ends of nine runs"
    later = time_left(nine, 650.0, None)
    assert later is not None
    assert (later.low, later.expected, later.high) == (0.0, 150.0, None), "three runs can't give 80 %"
    assert later.basis == "3 of 9 earlier runs with the same settings reached the target later"
    bounded = time_left(nine, 650.0, 300.0)
    assert bounded is not None and bounded.high == 300.0, "a run ends at its last iteration"


def test_a_run_that_missed_the_target_is_censored() -> None:
    found = time_left([*reached(100.0), RunTime(wall_s=500.0, to_target_s=None)], 0.0, 1000.0)
    assert found is not None
    assert (found.expected, found.high) == (1000.0, 1000.0), "of two runs and this one, one came sooner than 500 s"


@pytest.mark.parametrize("earlier", [[], reached(10.0), [RunTime(wall_s=900.0, to_target_s=None)]])
def test_without_a_slower_earlier_run_there_is_only_a_bound(earlier: list[RunTime]) -> None:
    found = time_left(earlier, 60.0, 240.0)
    assert found is not None
    assert (found.expected, found.low, found.high) == (None, None, 240.0)
    assert found.basis.startswith("at most until its last iteration")
    assert time_left(earlier, 60.0, None) is None, "unknown, and not 0"


def test_a_time_limit_bounds_the_forecast(tmp_path: Path) -> None:
    limited = {"request": {"limit_s": 100.0}, "max_iterations": 5000}
    make_run(tmp_path, "aa", took_s=60, iterations=25, ago_s=1.0, supervised_ago_s=1.0, **limited)
    make_run(tmp_path, "bb", took_s=60, iterations=25, ago_s=1.0, supervised_ago_s=1.0, max_iterations=26)
    runs = {run.run_id: run for run in read_ledger(tmp_path).runs}
    left_s = seconds_to_end(runs["aa"])
    assert left_s == pytest.approx(100.0 - sum(each.wall_ns for each in runs["aa"].attempts) / 1e9)
    assert left_s is not None and 0.0 < left_s <= 40.0
    assert seconds_to_end(runs["bb"]) == pytest.approx(2.0)
    make_run(tmp_path, "cc", iterations=0, ago_s=1.0, stop_at_target=False, **limited)
    waiting = next(run for run in read_ledger(tmp_path).runs if run.run_id == "cc")
    unknown = time_to_end(waiting)
    assert unknown is not None and unknown.expected is None and unknown.high is not None, "it may end sooner"


def test_the_speed_of_a_run_is_that_of_its_training_loop(tmp_path: Path) -> None:
    make_run(tmp_path, "aa", took_s=60, iterations=25, ago_s=1000.0, supervised_ago_s=1.0)
    resumed = make_run(tmp_path, "bb", took_s=60, iterations=25, status=Status.PREEMPTED, state=True)
    make_run(tmp_path, "cc", iterations=0)
    with Journal(resumed / "journal-2-0.jsonl") as journal:
        journal.append(AttemptStarted(run_id="bb", attempt=2, rank=0, pid=1, host="n2", wall_ns=SECOND))
        journal.append(StateRestored.from_data({**RESTORED, "wall_ns": 5 * SECOND}))
        journal.append(window(None, 1000, {"startup": 10 * SECOND}, 10 * SECOND))
        journal.append(window(30, 1200, {"simulate": 15 * SECOND}, 25 * SECOND))
    runs = {run.run_id: run for run in read_ledger(tmp_path).runs}
    assert seconds_to_last_iteration(runs["aa"]) == pytest.approx(75 * 2.0), "neither start-up nor silence counts"
    assert seconds_to_last_iteration(runs["bb"]) == pytest.approx(70 * 3.0), "on its present machine"
    assert seconds_to_last_iteration(runs["cc"]) is None


@pytest.mark.parametrize("moment", [0.0, 1.0])
def test_intervals_hold_the_time_that_runs_have_left(moment: float) -> None:
    scenario = Scenario(earlier=20, spread=0.6, limit_s=3000.0, crashes=0.3, moment=moment)
    found = cover(scenario, 300, np.random.default_rng(1))
    assert found.covered / found.looks >= 0.75


def test_intervals_hold_what_a_study_takes_in_the_end() -> None:
    scenario = ForecastScenario(ended=5, missing=5, spread=0.3, misses=0.0)
    found = cover_forecast(scenario, 300, np.random.default_rng(1))
    assert 0.75 <= found.covered / found.studies <= 0.87


RUN = declared("aa", hardware={"cpu": "Xeon", "cpu_cores": 4}, request={"cpu_threads": None})


@pytest.mark.parametrize(
    "changes",
    [
        {"num_envs": 20},
        {"hardware": {"cpu": "EPYC", "cpu_cores": 4}},
        {"hardware": {"cpu": "Xeon", "cpu_cores": 8}},
        {"hardware": {"cpu": "Xeon", "cpu_cores": 4, "cpu_quota": 2.0}},
        {"request": {"cpu_threads": 1}},
    ],
)
def test_other_settings_and_machines_say_nothing(changes: dict[str, Any]) -> None:
    assert settings_of(replace(RUN, **changes)) != settings_of(RUN)
