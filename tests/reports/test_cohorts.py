"""Cohorts in the report: missing runs, the cost of failures, undefined figures, and the spend of earlier runs."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ledger_lab.cli.report import build_report
from ledger_lab.ledger import Status, declare_cohort, read_ledger
from ledger_lab.ledger.costs.cohorts import cost_interval
from ledger_lab.ledger.costs.prices import Price, load_prices
from ledger_lab.reports import CohortSummary, render_report, summarize_cohorts, summarize_run
from ledger_lab.reports.selection import select_in
from ledger_lab.tasks.pretrained import ROOT
from tests.fakes.ledgers import priced, write_run

A_DOLLAR_A_SECOND = priced()


def reached(root: Path, run_id: str, **changes: object) -> None:
    """Write a run that reached its target after 9 s, for $9."""
    changes = {"price": A_DOLLAR_A_SECOND, "cohort": "c", "seed": int(run_id, 36), **changes}
    write_run(root, run_id, scores=(5, 9), proof=9, status=Status.TARGET_REACHED, **changes)  # type: ignore[arg-type]


def failed(root: Path, run_id: str, status: Status | None = Status.CRASHED, **changes: object) -> None:
    """Write a run that ended after 5 s, for $5."""
    changes = {"price": A_DOLLAR_A_SECOND, "cohort": "c", "seed": int(run_id, 36), **changes}
    write_run(root, run_id, scores=(), status=status, **changes)  # type: ignore[arg-type]


def one_cohort(root: Path) -> CohortSummary:
    """Summarize the only cohort under a root."""
    ledger = read_ledger(root)
    (cohort,) = summarize_cohorts([summarize_run(run) for run in ledger.runs], ledger.cohorts)
    return cohort


def shown(root: Path) -> str:
    """Return the report of a root in a wide terminal, with one blank between words."""
    ledger = read_ledger(root)
    summaries = [summarize_run(run) for run in ledger.runs]
    out = StringIO()
    console = Console(file=out, width=400)
    console.print(render_report(summaries, summarize_cohorts(summaries, ledger.cohorts), 400))
    return " ".join(out.getvalue().split())


def test_declared_runs_without_a_journal_are_missing(tmp_path: Path) -> None:
    declare_cohort(tmp_path, "c", 5)
    for run_id in ("aa", "bb"):
        reached(tmp_path, run_id)
    failed(tmp_path, "cc")
    cohort = one_cohort(tmp_path)
    assert (cohort.runs, cohort.declared_runs, cohort.missing_runs) == (3, 5, 2)
    assert " c 2 of 3 (1 failed) " in shown(tmp_path) and "cohort c: 2 missing" in shown(tmp_path)


def test_runs_of_a_cohort_on_another_panel_are_not_missing(tmp_path: Path) -> None:
    declare_cohort(tmp_path, "c", 3)
    reached(tmp_path, "aa")
    reached(tmp_path, "bb", panel_id="p1-bb")
    ledger = read_ledger(tmp_path)
    cohorts = summarize_cohorts([summarize_run(run) for run in ledger.runs], ledger.cohorts)
    assert [(cohort.runs, cohort.missing_runs) for cohort in cohorts] == [(1, 1), (1, 1)]


@pytest.mark.parametrize(
    ("status", "failures"),
    [(Status.CRASHED, 1), (Status.OUT_OF_MEMORY, 1), (Status.STOPPED, 1), (None, 1), (Status.LIMIT_REACHED, 0)],
)
def test_the_spend_counts_for_every_kind_of_end(tmp_path: Path, status: Status | None, failures: int) -> None:
    reached(tmp_path, "aa")
    failed(tmp_path, "bb", status)
    cohort = one_cohort(tmp_path)
    assert (cohort.runs, cohort.failed_runs, cohort.spend_usd) == (2, failures, pytest.approx(9 + 5))
    assert cohort.usd_per_target_reaching_checkpoint == pytest.approx(14)


def test_of_a_run_that_was_ended_from_outside_and_repeated_only_the_cost_counts(tmp_path: Path) -> None:
    declare_cohort(tmp_path, "c", 6)
    for seed in range(1, 5):
        reached(tmp_path, f"a{seed}", seed=seed)
    failed(tmp_path, "b1", Status.PREEMPTED, seed=5)
    failed(tmp_path, "b2", Status.PREEMPTED, seed=6)
    before = one_cohort(tmp_path)
    assert (before.runs, before.repeated_runs, before.missing_runs, before.failed_runs) == (6, 0, 0, 2)
    reached(tmp_path, "c5", seed=5)
    cohort = one_cohort(tmp_path)
    assert (cohort.runs, cohort.repeated_runs, cohort.missing_runs, cohort.failed_runs) == (6, 1, 0, 1)
    assert cohort.target_reaching_runs == 5
    assert len(cohort.times) == 6
    assert cohort.spend_usd == pytest.approx(5 * 9 + 5 + 5), "that of the repeated run, too"
    folded = cost_interval([*[(9.0, True)] * 4, (9.0 + 5.0, True), (5.0, False)])
    assert cohort.usd_per_target_reaching_checkpoint_interval == pytest.approx(folded)
    assert " c 5 of 6 (1 failed) " in shown(tmp_path) and "cohort c: + 1 repeated" in shown(tmp_path)


@pytest.mark.parametrize(
    ("later", "repeated"),
    [
        ({}, 1),
        ({"code_sha256": {"ledger_lab": "new"}, "hardware": {"cpu": "another"}}, 1),
        ({"rl_library": "skrl"}, 0),
        ({"num_envs": 20}, 0),
        ({"overrides": ["agent.x=1"]}, 0),
        ({"recipe": {"fields": {"horizon": 8}, "num_envs": None, "overrides": []}}, 0),
    ],
    ids=str,
)
def test_only_a_run_of_the_same_seed_and_configuration_repeats_one_that_was_ended_from_outside(
    later: dict[str, object], repeated: int, tmp_path: Path
) -> None:
    failed(tmp_path, "a", Status.PREEMPTED, seed=1)
    reached(tmp_path, "b", **{"seed": 1, **later})
    cohort = one_cohort(tmp_path)
    assert (cohort.runs, cohort.repeated_runs, cohort.failed_runs) == (2 - repeated, repeated, 1 - repeated)
    assert cohort.spend_usd == pytest.approx(9 + 5)


def test_fewer_than_five_runs_have_no_interval(tmp_path: Path) -> None:
    reached(tmp_path, "aa")
    failed(tmp_path, "bb")
    assert one_cohort(tmp_path).usd_per_target_reaching_checkpoint_interval is None
    assert " $14.00 $14.00 " in shown(tmp_path)
    for run_id in ("cc", "dd", "ee"):
        reached(tmp_path, run_id)
    interval = one_cohort(tmp_path).usd_per_target_reaching_checkpoint_interval
    assert interval is not None and interval[0] < 41 / 4 < interval[1]
    assert f" $10.25 [${interval[0]:.2f}, ${interval[1]:.2f}] $41.00 " in shown(tmp_path)


def test_without_a_success_the_cost_is_undefined_with_the_spend_as_bound(tmp_path: Path) -> None:
    failed(tmp_path, "aa")
    failed(tmp_path, "bb")
    cohort = one_cohort(tmp_path)
    assert (cohort.at_least_usd, cohort.usd_per_target_reaching_checkpoint) == (10.0, None)
    assert " undefined, ≥ $10.00 spent $10.00 " in shown(tmp_path)


def test_the_median_includes_runs_that_missed_the_target(tmp_path: Path) -> None:
    reached(tmp_path, "aa")
    reached(tmp_path, "bb")
    write_run(tmp_path, "cc", scores=(5, 6), cohort="c", price=A_DOLLAR_A_SECOND)
    cohort = one_cohort(tmp_path)
    assert (cohort.median_wall_to_target_s, cohort.median_wall_to_target_exceeds_s) == (9.0, None)
    assert cohort.median_wall_to_target_is_exact
    assert " c 2 of 3 0:09 " in shown(tmp_path)
    write_run(tmp_path, "dd", scores=(5, 6), cohort="c", seed=2, price=A_DOLLAR_A_SECOND)
    cohort = one_cohort(tmp_path)
    assert (cohort.median_wall_to_target_s, cohort.median_wall_to_target_exceeds_s) == (None, 9.0)
    assert " c 2 of 4 > 0:09 " in shown(tmp_path)
    for run_id in ("ee", "ff"):
        reached(tmp_path, run_id)
    failed(tmp_path, "gg")
    assert " c 4 of 7 (1 failed) ≈ 0:09 " in shown(tmp_path), "beyond the end of a run, it is an estimate"


def test_an_unpriced_cohort_shows_how_to_price_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reached(tmp_path, "aa", price=load_prices()["local"].to_dict())
    failed(tmp_path, "bb")
    cohort = one_cohort(tmp_path)
    assert (cohort.spend_usd, cohort.at_least_usd, cohort.usd_per_target_reaching_checkpoint_interval) == (None,) * 3
    assert " unpriced unpriced " in shown(tmp_path)
    build_report(["--log_root", str(tmp_path), "--details"])
    assert "unpriced (spent ÷ runs that reached the target) · name an --instance or give" in capsys.readouterr().out


def test_the_report_shows_cohorts_that_never_began(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declare_cohort(tmp_path, "never", 4)
    declare_cohort(tmp_path, "c", 2)
    reached(tmp_path, "aa")
    build_report(["--log_root", str(tmp_path)])
    assert "cohort never: 4 of 4 declared runs missing" in capsys.readouterr().out
    build_report(["--log_root", str(tmp_path), "--json", "-"])
    report = json.loads(capsys.readouterr().out)
    assert report["declared_cohorts"] == [
        {"cohort": "c", "declared_runs": 2, "missing_runs": 1, "runs": ["aa"]},
        {"cohort": "never", "declared_runs": 4, "missing_runs": 4, "runs": []},
    ]
    assert report["cohorts"][0]["missing_runs"] == 1


def test_a_cohort_is_complete_even_if_some_runs_are_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declare_cohort(tmp_path, "c", 2)
    reached(tmp_path, "aa")
    failed(tmp_path, "bb")
    failed(tmp_path, "cc", cohort="other")
    build_report(["--log_root", str(tmp_path), "aa", "--json", "-"])
    report = json.loads(capsys.readouterr().out)
    assert [run["run_id"] for run in report["runs"]] == ["aa"]
    (cohort,) = report["cohorts"]
    assert (cohort["runs"], cohort["declared_runs"], cohort["missing_runs"]) == (2, 2, 0)
    assert (cohort["spend_usd"], cohort["failed_runs"]) == (14.0, 1)  # not only the cost of the selected run


def test_a_cohort_says_the_chance_of_a_false_pass_among_its_runs(tmp_path: Path) -> None:
    reached(tmp_path, "aa")
    assert one_cohort(tmp_path).false_pass_bound == pytest.approx(0.05)
    for run_id, budget in (("bb", 0.05), ("cc", 0.02)):
        failed(tmp_path, run_id, error_budget=budget)
    assert one_cohort(tmp_path).false_pass_bound == pytest.approx(1 - 0.95 * 0.95 * 0.98)
    assert " ≤ 11.6 % " in shown(tmp_path)


def test_runs_of_one_seed_and_configuration_count_once(tmp_path: Path) -> None:
    declare_cohort(tmp_path, "c", 5)
    for number in range(5):
        reached(tmp_path, f"a{number}", seed=42)
    cohort = one_cohort(tmp_path)
    assert (cohort.runs, cohort.repeated_runs, cohort.missing_runs) == (1, 4, 4)
    assert (cohort.target_reaching_runs, len(cohort.times)) == (1, 1)
    assert cohort.spend_usd == cohort.usd_per_target_reaching_checkpoint == pytest.approx(5 * 9), "all of it was spent"
    assert "cohort c: + 4 repeated; 4 missing" in shown(tmp_path)


@pytest.mark.parametrize(
    "other",
    [{"seed": 43}, {"overrides": ["agent.x=1"]}, {"num_envs": 20}, {"config_sha256": {"env": "e", "agent": "b"}}],
)
def test_runs_of_another_seed_or_configuration_count(tmp_path: Path, other: dict[str, object]) -> None:
    reached(tmp_path, "a", seed=42)
    reached(tmp_path, "b", **{"seed": 42, **other})
    assert (one_cohort(tmp_path).runs, one_cohort(tmp_path).repeated_runs) == (2, 0)


def test_a_failure_and_a_success_of_one_seed_both_count(tmp_path: Path) -> None:
    failed(tmp_path, "a", Status.NON_FINITE, seed=42)
    failed(tmp_path, "b", Status.NON_FINITE, seed=42)
    reached(tmp_path, "c", seed=42)
    cohort = one_cohort(tmp_path)
    assert (cohort.runs, cohort.failed_runs, cohort.repeated_runs) == (2, 1, 1)


TWICE = Price.from_dict({**A_DOLLAR_A_SECOND, "usd_per_hour": 7200.0})


def began(run_id: str, usd: float | None = 100.0, task: str = "T") -> dict[str, Any]:
    """Return the checkpoint of a run, with what its declaration would record."""
    return {
        "run_id": run_id, "task": task, "checkpoint": "m.pt", "sha256": "0", "env_steps": 1, "wall_s": 1.0, "usd": usd
    }  # fmt: skip


def cohort(root: Path, price: Price | None = None, name: str = "c") -> CohortSummary:
    """Return one cohort of a ledger, as a report does that was asked for a price."""
    ledger = read_ledger(root)
    (found,) = select_in(ledger, (name,), price).contents.cohorts
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


def test_the_policy_of_a_task_is_priced_like_the_cohort(tmp_path: Path) -> None:
    task = "LedgerLab-Cartpole"
    (shipped,) = read_ledger(ROOT / task).runs
    reached(tmp_path, "aa", began_from=began(shipped.run_id, task=task))
    for price in (None, TWICE):
        assert cohort(tmp_path, price).before_usd == pytest.approx(summarize_run(shipped, price).billable_usd)


def test_an_unpriced_earlier_run_is_unknown_and_not_free(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reached(tmp_path, "aa", began_from=began("elsewhere", None))
    reached(tmp_path, "bb", began_from=began("other", 4.0))
    assert cohort(tmp_path).before_usd is None
    assert build_report(["--log_root", str(tmp_path)]) == 0
    assert " $18.00 + unpriced before " in " ".join(capsys.readouterr().out.split())


def test_the_report_shows_the_spend_before_beside_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reached(tmp_path, "aa", cohort="flat")
    for seed, run_id in enumerate(("bb", "cc")):
        reached(tmp_path, run_id, began_from=began("aa"), seed=seed)
    assert build_report(["c", "--log_root", str(tmp_path), "--usd_per_hour", "7200"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert " $18.00 + $9.00 before $36.00 + $18.00 before " in shown
    page = tmp_path / "page.html"
    assert build_report(["page", str(page), "c", "--log_root", str(tmp_path)]) == 0
    assert "+ $9.00 before" in page.read_text()
    build_report(
        ["query", "SELECT begun_runs, before_usd FROM cohorts", "c", "--log_root", str(tmp_path), "--csv", "-"]
    )
    assert "2,9.0" in capsys.readouterr().out
