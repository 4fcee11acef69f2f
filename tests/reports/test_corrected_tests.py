"""Several comparisons together claim no more than one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.reports.compare import CorrectedTests, correct_for_all, holm
from ledger_lab.reports.comparing import finding_notes, finding_sentence
from tests.reports.test_compare import cohort_of, finding_of


def test_holm_multiplies_the_smallest_p_value_by_the_number_of_tests() -> None:
    # Holm 1979: compare p(1) with 0.05 / 4, p(2) with 0.05 / 3, …; stop at the first that is larger.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_comparisons_without_a_test_do_not_count() -> None:
    found = correct_for_all([(0.01, None), (None, None), (0.02, 0.5)])
    assert found == [
        CorrectedTests(time=pytest.approx(0.03), cost=None, tests=3),
        CorrectedTests(time=None, cost=None, tests=3),
        CorrectedTests(time=pytest.approx(0.04), cost=pytest.approx(0.5), tests=3),
    ]


def test_a_difference_that_the_correction_removes_is_not_claimed(tmp_path: Path) -> None:
    cohort_of(tmp_path, "a", [60, 70, 80, 90, 100])
    cohort_of(tmp_path, "b", [10, 12, 14, 16, 18])
    finding = finding_of(tmp_path)
    corrected = CorrectedTests(time=0.04, cost=0.06, tests=6)
    sentence = finding_sentence(finding, corrected)
    assert "cheaper (no difference in cost shown: p = 0.06 with Holm's correction for 6 tests)" in sentence
    assert "no difference in time" not in sentence
    assert (
        "log-rank test of the times to target: p = 0.0079, by permutation of the runs; 0.04 with Holm's correction for "
        "6 tests" in finding_notes(finding, corrected)
    )


def test_arms_of_fewer_than_five_runs_are_not_compared(tmp_path: Path) -> None:
    cohort_of(tmp_path, "a", [60, 70, -80])
    cohort_of(tmp_path, "b", [10, 12, 14])
    finding = finding_of(tmp_path)
    (corrected,) = correct_for_all([(finding.time_p_value, finding.cost_p_value)])
    assert finding_sentence(finding, corrected) == (
        "no claim about a difference; n = 3 each, and each side needs at least 5 runs"
    )
    assert finding_notes(finding, corrected) == [
        "paired by training seed (1, 2, 3)",
        "A: 2 of 3 runs reached the target",
        "B: 3 of 3 runs reached the target",
    ]
