"""The spend of the trainings whose checkpoints a cohort began with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger_lab.cli.report import build_report
from ledger_lab.ledger import read_ledger
from ledger_lab.ledger.costs import Price
from ledger_lab.reports import CohortSummary, summarize_cohorts, summarize_run
from ledger_lab.reports.selection import summarize_selected
from ledger_lab.tasks.pretrained import ROOT
from tests.reports.test_cohorts import A_DOLLAR_A_SECOND, failed, reached

TWICE = Price.from_dict({**A_DOLLAR_A_SECOND, "usd_per_hour": 7200.0})


def began(run_id: str, usd: float | None = 100.0, task: str = "T") -> dict[str, Any]:
    """Return the checkpoint of a run, with what its declaration would record."""
    return {
        "run_id": run_id, "task": task, "checkpoint": "m.pt", "sha256": "0", "env_steps": 1, "wall_s": 1.0, "usd": usd
    }  # fmt: skip


def cohort(root: Path, price: Price | None = None, name: str = "c") -> CohortSummary:
    """Return one cohort of a ledger, as a report does that was asked for a price."""
    ledger = read_ledger(root)
    _, cohorts = summarize_selected(ledger, [run for run in ledger.runs if run.cohort == name], price)
    (found,) = cohorts
    return found


def test_an_earlier_run_counts_once_however_many_runs_began_with_it(tmp_path: Path) -> None:
    reached(tmp_path, "aa", cohort="flat")
    for run_id in ("bb", "cc"):
        reached(tmp_path, run_id, began_from=began("aa"))
    failed(tmp_path, "dd")
    found = cohort(tmp_path)
    assert (found.spend_usd, found.begun_runs, found.before_usd) == (23, 2, 9), "as the ledger knows, not 100"
    assert cohort(tmp_path, name="flat").before_usd == cohort(tmp_path, name="flat").begun_runs == 0


def test_earlier_runs_are_followed_to_the_first_and_priced_like_the_cohort(tmp_path: Path) -> None:
    reached(tmp_path, "aa", cohort="first")
    failed(tmp_path, "bb", cohort="second", began_from=began("aa"))
    reached(tmp_path, "cc", began_from=began("bb"))
    reached(tmp_path, "dd", began_from=began("cc"))
    for price, factor in ((None, 1), (TWICE, 2)):
        found = cohort(tmp_path, price)
        assert (found.spend_usd, found.before_usd) == (factor * 18, factor * (9 + 5))
        assert found.begun_runs == 1, "the other one began with a run of the cohort"


def test_without_the_rows_of_an_earlier_run_its_declared_spend_counts_once(tmp_path: Path) -> None:
    reached(tmp_path, "aa", began_from=began("elsewhere", 3.0))
    reached(tmp_path, "bb", began_from=began("elsewhere", 4.0))
    assert cohort(tmp_path).before_usd == 4, "it had spent more when the second run began"
    assert cohort(tmp_path, TWICE).before_usd is None, "what it costs at another price is not known"


def test_an_unpriced_earlier_run_is_unknown_and_not_free(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reached(tmp_path, "aa", began_from=began("elsewhere", None))
    reached(tmp_path, "bb", began_from=began("other", 4.0))
    assert cohort(tmp_path).before_usd is None
    assert build_report(["--log_root", str(tmp_path)]) == 0
    assert "$18.00 spent + unpriced before" in " ".join(capsys.readouterr().out.split())


def test_the_policy_of_a_task_is_priced_like_the_cohort(tmp_path: Path) -> None:
    task = "LedgerLab-Cartpole"
    (shipped,) = read_ledger(ROOT / task).runs
    reached(tmp_path, "aa", began_from=began(shipped.run_id, task=task))
    for price in (None, TWICE):
        assert cohort(tmp_path, price).before_usd == pytest.approx(summarize_run(shipped, price).billable_usd)


def test_the_report_shows_the_spend_before_beside_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reached(tmp_path, "aa", cohort="flat")
    for seed, run_id in enumerate(("bb", "cc")):
        reached(tmp_path, run_id, began_from=began("aa"), seed=seed)
    assert build_report(["c", "--log_root", str(tmp_path), "--usd_per_hour", "7200"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "$36.00 spent + $18.00 before · $18.00 + $9.00 before per target-reaching checkpoint" in shown
    page = tmp_path / "page.html"
    assert build_report(["page", str(page), "c", "--log_root", str(tmp_path)]) == 0
    assert "+ $9.00 before" in page.read_text()
    build_report(
        ["query", "SELECT begun_runs, before_usd FROM cohorts", "c", "--log_root", str(tmp_path), "--csv", "-"]
    )
    assert "2,9.0" in capsys.readouterr().out


def test_a_summary_without_a_ledger_uses_the_declarations(tmp_path: Path) -> None:
    reached(tmp_path, "aa", began_from=began("elsewhere", 3.0))
    (run,) = read_ledger(tmp_path).runs
    (found,) = summarize_cohorts([summarize_run(run)])
    assert found.before_usd == 3
