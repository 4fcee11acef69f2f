"""A run that begins with a checkpoint has the error budget that the run of the checkpoint left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ledger_lab.ledger import PanelResult, read_ledger
from ledger_lab.panels import ERROR_BUDGET, VerdictRule
from ledger_lab.panels.carried import LeftBudget, left_budget
from ledger_lab.panels.verdict import Verdict
from tests.fakes.ledgers import proof_of, write_proven

RULE = VerdictRule(0.9)
STAKED = (RULE.stake + RULE.extension) * ERROR_BUDGET


def left(root: Path, *rows: PanelResult, panels: int | None = None, **changes: object) -> LeftBudget:
    """Return what a run with these proofs leaves."""
    write_proven(root, "aa", *rows, **{"target_success": 0.9, "verdict_rule": 2, **changes})
    return left_budget(read_ledger(root).runs[0], panels)


def test_a_run_without_a_proof_leaves_what_it_began_with(tmp_path: Path) -> None:
    assert left(tmp_path / "new") == LeftBudget(ERROR_BUDGET, 0)
    assert left(tmp_path / "begun", error_budget=0.01) == LeftBudget(0.01, 0)


def test_failed_proofs_leave_less_each_time(tmp_path: Path) -> None:
    failed = [proof_of("aa", number, 200, 241) for number in (1, 2, 3)]
    budgets = [left(tmp_path / str(panels), *failed, panels=panels) for panels in (0, 1, 2, 3)]
    assert [each.panels for each in budgets] == [0, 1, 2, 3]
    assert [each.budget for each in budgets] == pytest.approx([ERROR_BUDGET / 2**each for each in range(4)], rel=1e-3)


def test_a_proof_returns_its_stake_and_no_more(tmp_path: Path) -> None:
    passed = proof_of("aa", 1, 250, 241)
    assert left(tmp_path / "first", passed).budget == ERROR_BUDGET
    later = [proof_of("aa", 1, 200, 241), proof_of("aa", 2, 250, 242)]
    assert left(tmp_path / "second", *later).budget == pytest.approx(ERROR_BUDGET - STAKED, rel=1e-3)


def test_a_near_miss_that_was_not_played_to_its_end_returns_at_most_its_stake(tmp_path: Path) -> None:
    assert left(tmp_path / "near", proof_of("aa", 1, 240, 241)).budget == pytest.approx(ERROR_BUDGET)
    (low, high) = (left(tmp_path / str(won), proof_of("aa", 1, won, 241)).budget for won in (225, 235))
    assert ERROR_BUDGET - STAKED < low < high < ERROR_BUDGET


def test_an_invalid_score_counts_as_failures(tmp_path: Path) -> None:
    row = replace(proof_of("aa", 1, 250, 241), invalid="capacity")
    assert left(tmp_path, row).budget == pytest.approx(ERROR_BUDGET - STAKED, rel=1e-3)


def test_checks_and_evaluations_spend_nothing(tmp_path: Path) -> None:
    rows = [replace(proof_of("aa", 1, 200, 224), purpose=purpose) for purpose in ("check", "evaluation")]
    assert left(tmp_path, *rows) == LeftBudget(ERROR_BUDGET, 0)


def test_what_a_run_left_is_computed_by_its_own_rule_target_and_budget(tmp_path: Path) -> None:
    rows = [proof_of("aa", 1, 200, 243), proof_of("aa", 2, 210, 244)]
    for version in (1, 2):
        rule = VerdictRule.of_version(version, 0.8, 0.02)
        expected = Verdict(rule, rows).standing.after_proof.item()
        found = left(tmp_path / str(version), *rows, target_success=0.8, error_budget=0.02, verdict_rule=version)
        assert found.budget == expected < 0.02
