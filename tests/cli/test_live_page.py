"""The live part of the page: what a watch found, in words, with hostile texts as texts."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

from ledger_lab.cli.live_page import live_part
from ledger_lab.ledger import read_ledger
from ledger_lab.reports.page import render_live
from ledger_lab.reports.page.live import LOOKS, LivePart
from ledger_lab.reports.watch import Alert, AlertKind, Estimate, RunProgress, Severity, Spend, State, Watch
from tests.fakes.live import LiveTraining

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOSTILE = "<b onclick='x'>&amp;\"</b>"
RUN = RunProgress(
    run_id="aa", name="aa", state=State.RUNNING, said=None, since=AT, last_row_at=AT, host="h", study=None, cohort="c",
    task="T", rl_library="rsl_rl", seed=1, attempts=2, target_success=0.9, target_reached=False, screenings=1,
    confirmations=0, best_score=0.5, iterations=30, max_iterations=100, wall_s=60.0, usd=0.5,
    usd_per_hour=1.0, left_s=Estimate(expected=180.0, low=60.0, high=240.0, basis=""),
    left_usd=Estimate(expected=None, low=None, high=1.5, basis=""),
)  # fmt: skip
QUEUED = dataclasses.replace(
    RUN, run_id=None, name=HOSTILE, state=State.QUEUED, said="waits for resources", left_s=None, iterations=0, usd=None
)
SPEND = Spend(
    kind="cohort", name=HOSTILE, runs=2, live_runs=1, planned=4, missing=2, spent_usd=1.5, spent_h=0.5,
    evaluation_usd=None, usd_per_hour=2.0, forecast_usd=Estimate(expected=3.0, low=2.0, high=5.0, basis=""),
    forecast_h=None, budget_usd=10.0, budget_h=None, unknown=None,
)  # fmt: skip
ALERT = Alert(
    kind=AlertKind.HUNG, severity=Severity.CRITICAL, subject_kind="run", subject="aa", since=AT, usd_per_hour=1.0,
    sentence=HOSTILE, way_out=f"kill {HOSTILE}",
)  # fmt: skip


def part_of(root: Path, *runs: RunProgress, **changes: object) -> LivePart:
    """Return the live part of a watch."""
    watch = Watch(at=AT, log_root=str(root), runs=runs, cohorts=(SPEND,), studies=(), alerts=(ALERT,), notes=(HOSTILE,))
    known = {run.run_id: run for run in read_ledger(root).runs}
    fields = {"written_at": 0.0, "every_s": 5.0, "due_s": 60.0, "address": lambda run, kind, path: f"{kind}/{path}"}
    return live_part(dataclasses.replace(watch, **changes), known, **fields)  # type: ignore[arg-type]


def test_every_state_has_a_look() -> None:
    assert {str(state) for state in State} == LOOKS.keys()


def test_what_needs_attention_comes_first_and_texts_stay_texts(tmp_path: Path) -> None:
    hung = dataclasses.replace(RUN, run_id="bb", name="bb", state=State.HUNG)
    part = part_of(tmp_path, RUN, QUEUED, hung)
    assert part.counts == (("hung", 1), ("queued", 1), ("running", 1))
    assert [run.state for run in part.runs] == ["hung", "queued", "running"]
    _, queued, running = part.runs
    assert queued.said == "waits for resources · attempt 2 · since 2026-01-02 03:04:05 UTC"
    assert (queued.progress, queued.time_left) == (0.0, "–")
    assert (running.progress, running.time_left, running.usd_left) == (0.25, "3:00 [1:00, 4:00]", "≤ $1.50")
    html = render_live(part)
    assert HOSTILE not in html and html.count("&lt;b onclick") == 6
    assert "$3.00 [$2.00, $5.00]" in html and "2 of 4, 1 live" in html


def test_a_run_has_its_newest_files_and_the_end_of_its_console(tmp_path: Path) -> None:
    with LiveTraining(tmp_path, "aa") as training:
        for _ in range(5):
            training.iterate()
            training.save()
        training.say(f"{'x' * 9000}\n{HOSTILE}\n")
    (run,) = part_of(tmp_path, RUN).runs
    assert [link.title for link in run.links] == [f"policy model_{number}.pt" for number in (5, 4, 3)]
    assert (run.log_name, run.log) == ("console.log", HOSTILE)


def test_of_many_trainings_those_that_need_attention_are_shown(tmp_path: Path) -> None:
    lost = dataclasses.replace(RUN, run_id=None, name="lost", state=State.LOST)
    part = part_of(tmp_path, *[QUEUED] * 300, lost)
    assert (part.runs[0].name, len(part.runs), part.left_out) == ("lost", 200, 101)
    assert "101 more are not shown" in render_live(part)
    assert "No training waits or runs." in render_live(part_of(tmp_path))
