"""The live part of the page: what a watch found, in words, with hostile texts as texts."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

from markupsafe import escape

from ledger_lab.ledger import read_ledger
from ledger_lab.reports.page.live import LivePart, render_live
from ledger_lab.reports.watch.model import Alert, Estimate, RunProgress, Spend, State, Watch
from tests.fakes.live import LiveTraining

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOSTILE = "<b onclick='x'>&amp;\"</b>"
RUN = RunProgress(
    run_id="aa", name="aa", state=State.RUNNING, said=None, since=AT, last_row_at=AT, host="h", study=None, cohort="c",
    task="T", rl_library="rsl_rl", seed=1, attempts=2, target_success=0.9, target_reached=False, checks=1,
    proofs=0, best_score=0.5, iterations=30, max_iterations=100, wall_s=60.0, usd=0.5,
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
    kind="hung", severity="critical", subject_kind="run", subject="aa", since=AT, usd_per_hour=1.0,
    sentence=HOSTILE, way_out=f"kill {HOSTILE}",
)  # fmt: skip


def part_of(root: Path, *runs: RunProgress) -> LivePart:
    """Return the live part of a watch."""
    watch = Watch(at=AT, log_root=str(root), runs=runs, cohorts=(SPEND,), studies=(), alerts=(ALERT,), notes=(HOSTILE,))
    known = {run.run_id: run for run in read_ledger(root).runs}
    return LivePart(
        watch=watch, runs=known, address=lambda run, kind, path: f"{kind}/{path}", written_at=0, every_s=5, due_s=60
    )


def rows(html: str) -> list[str]:
    """Return the texts of the rows of the table of trainings."""
    table = html.partition("<tbody>")[2].partition("</tbody>")[0]
    return [unescape(re.sub(r"<[^>]*>|\s+", " ", row)) for row in table.split("</tr>")[:-1]]


def test_what_needs_attention_comes_first_and_texts_stay_texts(tmp_path: Path) -> None:
    hung = dataclasses.replace(RUN, run_id="bb", name="bb", state=State.HUNG)
    html = render_live(part_of(tmp_path, RUN, QUEUED, hung))
    counts = re.findall(r"<dt>(\w+)</dt><dd[^>]*>(?:<span[^>]*>.</span>)? ?(\d)", html)
    assert counts == [("alerts", "1"), ("hung", "1"), ("queued", "1"), ("running", "1")]
    first, queued, running = rows(html)
    assert "bb" in first and "hung" in first
    assert "waits for resources · attempt 2 · since 2026-01-02 03:04:05 UTC" in queued
    assert "3:00 [1:00, 4:00]" in running and "≤ $1.50" in running and "iteration 30/100" in running
    assert 'value="0.250"' in html and 'value="0.000"' in html
    assert HOSTILE not in html and html.count("&lt;b onclick") == 6
    assert "$3.00 [$2.00, $5.00]" in html and "2 of 4, 1 live" in html


def test_a_run_has_its_newest_files_and_the_end_of_its_console(tmp_path: Path) -> None:
    with LiveTraining(tmp_path, "aa") as training:
        for _ in range(5):
            training.iterate()
            training.save()
        training.say(f"{'x' * 9000}\n{HOSTILE}\n")
    html = render_live(part_of(tmp_path, RUN))
    assert re.findall(r"policy model_\d.pt", html) == [f"policy model_{number}.pt" for number in (5, 4, 3)]
    assert f'<summary>Console: <bdi>console.log</bdi></summary><pre tabindex="0">{escape(HOSTILE)}</pre>' in html


def test_of_many_trainings_those_that_need_attention_are_shown(tmp_path: Path) -> None:
    lost = dataclasses.replace(RUN, run_id=None, name="lost", state=State.LOST)
    html = render_live(part_of(tmp_path, *[QUEUED] * 300, lost))
    assert (len(rows(html)), "lost" in rows(html)[0]) == (200, True)
    assert "101 more are not shown" in html
    assert "No training waits or runs." in render_live(part_of(tmp_path))
