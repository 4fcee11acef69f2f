"""Hostile text in any field of any row is shown as text on the page, or the ledger is refused."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest

from ledger_lab.ledger import Ledger, Run, read_ledger
from ledger_lab.reports import CohortSummary, RunSummary, render_report, summarize_cohorts, summarize_run
from ledger_lab.reports.cohort_summary import Contents
from ledger_lab.reports.page.document import render_page
from ledger_lab.reports.page.model import build_model
from ledger_lab.reports.selection import Selection
from tests.fakes.browser import open_browser, visit
from tests.fakes.hostile import HostileField, write_hostile_runs

TEXT = (
    '"><meta http-equiv="refresh" content="0;url=https://FIELD.invalid/"></bdi></script><script>alert("FIELD")</script>'
    "<img src=x onerror=alert(1)><a href='javascript:alert(2)'>FIELD</a>%{y}<base href=https://invalid/>"
)
Shown = tuple[HostileField, Run, RunSummary, list[CohortSummary]]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[Shown]:
    """The hostile runs that a report can be made of. A text in the place of a number ends most reports."""
    found = []
    for folder, hostile in write_hostile_runs(tmp_path_factory.mktemp("hostile"), TEXT):
        try:
            ledger = read_ledger(folder)
            (run,) = ledger.runs
            summary = summarize_run(run)
            cohorts = summarize_cohorts([summary], ledger.cohorts)
            render_report([summary], cohorts, 200)
            build_model(Selection(ledger, (), Contents([run], [summary], cohorts), None), created_at="today")
        except Exception as error:
            assert str(error) or isinstance(error, MemoryError)
            continue
        found.append((hostile, run, summary, cohorts))
    return found


def test_every_field_of_text_reaches_the_report(shown: list[Shown]) -> None:
    names = {hostile.name for hostile, *_ in shown}
    texts = {
        "RunDeclared": "cohort task rl_library experiment overrides agent device panel panel_id physics",
        "SupervisionStarted": "host",
        "AttemptStarted": "host",
        "PhaseWindow": "non_finite",
        "Telemetry": "devices.uuid",
        "Health": "event evidence advice",
        "PanelResult": "panel panel_id device invalid outcomes.cell outcomes.ended_by outcomes.fingerprint",
        "LearnerHashed": "sha256",
        "AttemptEnded": "reason",
        "ShutdownEnded": "signal",
        "EvaluationStarted": "panel panel_id device host",
        "CohortDeclared": "cohort",
    }
    assert {f"{kind}.{field}" for kind, named in texts.items() for field in named.split()} <= names


@pytest.mark.thorough  # test_in_browser.py opens a page with hostile names
def test_no_field_starts_a_script_or_leaves_the_page(shown: list[Shown], tmp_path: Path) -> None:
    _, runs, summaries, cohorts = zip(*shown, strict=True)
    contents = Contents(runs, summaries, [*itertools.chain(*cohorts)])
    model = build_model(Selection(Ledger(tmp_path, runs), (), contents, None), created_at=TEXT)
    path = tmp_path / "page.html"
    path.write_text(render_page(dataclasses.replace(model, source=TEXT)), encoding="utf-8")
    with open_browser() as browser:
        seen = visit(browser, path)
        page = seen.page
        page.wait_for_timeout(300)  # a refresh takes a moment
        assert (seen.complaints, seen.requests, page.url) == ([], [], path.as_uri())
        assert page.locator("script").count() == 3
        assert page.locator("img, base, iframe, svg a, [href^='javascript:'], meta[http-equiv=refresh i]").count() == 0
        assert page.title() == f"LedgerLab: {TEXT}"
