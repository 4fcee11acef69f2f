"""Spend is what reports say, and forecasts count each training that is still to come."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ledger_lab.ledger import AttemptStarted, Journal, Status, declare_cohort, read_ledger
from ledger_lab.ledger.costs.prices import load_prices
from ledger_lab.reports import summarize_cohorts, summarize_run
from ledger_lab.reports.watch.model import PlannedStudy, Spend, State, Watch
from ledger_lab.reports.watch.view import watch_ledger
from tests.fakes.ledgers import SECOND, window
from tests.fakes.watched import G6, make_run

STUDY = PlannedStudy(name="s", cohorts=("s",), seeds=(1, 2, 3))


def look(root: Path, *studies: PlannedStudy) -> Watch:
    return watch_ledger(read_ledger(root), now=datetime.now(UTC), studies=studies)


def the_study(root: Path) -> Spend:
    (found,) = look(root, STUDY).studies
    return found


def resume(directory: Path, run_id: str, to_s: int) -> None:
    """Write a second attempt, which goes on."""
    with Journal(directory / "journal-2-0.jsonl") as journal:
        journal.append(AttemptStarted(run_id=run_id, attempt=2, rank=0, pid=1, host="n2", wall_ns=SECOND))
        journal.append(window(60, 2400, {"simulate": to_s * SECOND}, to_s * SECOND))


def test_the_spend_of_a_cohort_is_that_of_the_report(tmp_path: Path) -> None:
    make_run(tmp_path, "aa", took_s=610, status=Status.CRASHED, cohort="c", seed=1)
    make_run(tmp_path, "bb", took_s=300, ago_s=2000.0, cohort="c", seed=2)
    resumed = make_run(tmp_path, "cc", took_s=450, ago_s=900.0, status=Status.PREEMPTED, cohort="c", seed=3)
    resume(resumed, "cc", 200)
    declare_cohort(tmp_path, "c", 5)
    (spend,) = look(tmp_path).cohorts
    (summary,) = summarize_cohorts([summarize_run(run) for run in read_ledger(tmp_path).runs])
    assert spend.spent_usd == pytest.approx(summary.spend_usd)
    assert spend.spent_h == pytest.approx((610 + 300 + 450 + 200) / 3600)
    assert (spend.runs, spend.live_runs, spend.planned, spend.missing) == (3, 1, 5, 3)
    assert spend.usd_per_hour == pytest.approx(G6.usd_per_hour)


def test_what_a_hung_or_lost_training_still_takes_counts_as_missing(tmp_path: Path) -> None:
    root = tmp_path / "ledger"
    make_run(root, "e1", took_s=700, status=Status.COMPLETED, cohort="s", seed=1)
    make_run(root, "hung", ago_s=1000.0, supervised_ago_s=1.0, cohort="s", seed=2)
    make_run(root, "lost", took_s=500, ago_s=1000.0, cohort="s", seed=3)
    study = the_study(root)
    assert (study.live_runs, study.missing) == (1, 2), "a hung run costs money, and its training must be made again"
    assert study.forecast_h is not None and study.forecast_h.low is None, "one ended training has no spread"
    assert study.forecast_h.expected == pytest.approx((700 + 600 + 500 + 2 * 700) / 3600)


def test_an_interrupted_training_continues_from_its_state(tmp_path: Path) -> None:
    root = tmp_path / "ledger"
    for seed in (1, 2):
        make_run(root, f"e{seed}", took_s=700, status=Status.COMPLETED, cohort="s", seed=seed)
    make_run(root, "left", took_s=610, status=Status.PREEMPTED, cohort="s", seed=3, state=True)
    study = the_study(root)
    assert study.missing == 1 and study.forecast_h is not None
    rest_s = 600  # fifty more iterations at 12 s each, as a bound: no earlier run reached the target
    assert (study.forecast_h.expected, study.forecast_h.high) == (None, pytest.approx((2010 + rest_s) / 3600))


def test_runs_of_seeds_that_are_no_longer_planned_have_cost_money(tmp_path: Path) -> None:
    root = tmp_path / "ledger"
    make_run(root, "old", took_s=3600, status=Status.COMPLETED, cohort="s", seed=9)
    make_run(root, "e1", took_s=720, status=Status.COMPLETED, cohort="s", seed=1)
    study = the_study(root)
    assert (study.missing, study.spent_h) == (2, pytest.approx(1.2))
    assert study.forecast_h is not None and study.forecast_h.expected == pytest.approx(1.2 + 2 * 0.2)


def test_a_run_without_a_price_leaves_the_time(tmp_path: Path) -> None:
    root = tmp_path / "ledger"
    make_run(root, "aa", status=Status.COMPLETED, cohort="s", seed=1, price=load_prices()["local"].to_dict())
    study = the_study(root)
    assert (study.spent_usd, study.forecast_usd, study.unknown) == (None, None, "run aa has no price")
    assert study.forecast_h is not None and study.forecast_h.expected == pytest.approx(0.5)


def test_nothing_is_known_before_the_first_iteration(tmp_path: Path) -> None:
    root = tmp_path / "ledger"
    make_run(root, "aa", iterations=0, cohort="s", seed=1)
    found = look(root, STUDY)
    assert found.runs[0].left_s is None and found.runs[0].left_usd is None, "unknown, and not 0"
    assert found.studies[0].forecast_usd is None
    assert found.studies[0].unknown == "no training has ended, or a live one has not completed an iteration yet"


def test_a_run_that_was_removed_meanwhile_silences_no_other(tmp_path: Path) -> None:
    gone = make_run(tmp_path, "aa", ago_s=1000.0)
    make_run(tmp_path, "bb", ago_s=1000.0, supervised_ago_s=1.0)
    ledger = read_ledger(tmp_path)
    shutil.rmtree(gone)
    found = watch_ledger(ledger, now=datetime.now(UTC))
    assert [(each.run_id, each.state) for each in found.runs] == [("bb", State.HUNG)]


def test_absurd_figures_of_a_ledger_are_shown(tmp_path: Path) -> None:
    make_run(tmp_path, "aa", took_s=9_000_000_000, max_iterations=2**62, iterations=1, cohort="c")
    found = look(tmp_path).to_json()
    assert found["runs"][0]["left_s"]["high"] > 1e18
