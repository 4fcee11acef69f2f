"""The benchmark of coverage counts what is wrong, and says what does not hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from numpy.random import Generator

from benchmarks import coverage
from benchmarks.coverage import bench_coverage
from benchmarks.coverage.case import Case, of_the_same, one_by_one

FAIR = Case(figure="fair", about="wrong in 5 %", n=3, simulate=one_by_one(lambda stream: bool(stream.random() > 0.05)))
FALSE = Case(figure="false", about="wrong in 10 %", n=3, simulate=one_by_one(lambda stream: stream.random() > 0.1))
SILENT = Case(figure="silent", about="never printed", n=2, simulate=one_by_one(lambda stream: None))


def test_a_case_holds_unless_it_is_wrong_more_often_than_promised() -> None:
    fair, false, silent = (case.examine(4000, 1) for case in (FAIR, FALSE, SILENT))
    assert fair.holds and not false.holds
    assert false.share == pytest.approx(0.1, abs=5 * (false.error or 0.0))
    assert (silent.printed, silent.share, silent.error, silent.holds) == (0, None, None, True)


def test_figures_of_the_same_reports_are_simulated_once() -> None:
    reported: list[float] = []

    def report(stream: Generator) -> dict[str, bool | None]:
        reported.append(stream.random())
        return {"high": reported[-1] > 0.1, "never": None}

    simulations = of_the_same(report, ("high", "never"))
    high, never = (
        Case(figure=figure, about="", n=1, simulate=simulate, stream="both").examine(50, 1)
        for figure, simulate in simulations.items()
    )
    assert len(reported) == 50
    assert (high.printed, high.wrong, never.printed) == (50, sum(number <= 0.1 for number in reported), 0)


def test_the_exit_status_says_whether_everything_holds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(coverage, "CASES", (FAIR, FALSE, SILENT))
    assert bench_coverage(["--trials", "4000", "--json", str(tmp_path / "found.json")]) == 1
    assert "does not hold: false, wrong in 10 %, n = 3" in capsys.readouterr().out
    content = json.loads((tmp_path / "found.json").read_text())
    assert not content["all_hold"] and [row["holds"] for row in content["cases"]] == [True, False, True]
    assert bench_coverage(["--trials", "4000", "--only", "fair"]) == 0
