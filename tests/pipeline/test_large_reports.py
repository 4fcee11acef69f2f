"""Over a large ledger the report leaves out what takes a look at every row, says so, and makes up for it by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledger_lab.pipeline import build_report as module
from ledger_lab.pipeline.build_report import build_report
from ledger_lab.pipeline.synthetic_ledger import write_ledger


def test_bottlenecks_of_many_rows_are_told_of_named_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ledger(tmp_path, runs=2, rows=400)
    monkeypatch.setattr(module, "_EXPLAINED_ROWS", 100)

    def said(*arguments: str) -> str:
        assert build_report(["--log_root", str(tmp_path), *arguments]) == 0
        return capsys.readouterr().out

    left_out = "bottlenecks and advice are left out over 400 rows: name the runs to explain"
    assert left_out in said()
    named = said("00000001")
    assert left_out not in named and "simulation-bound" in named
    report = json.loads(said("--json", "-"))
    assert report["bottlenecks_left_out"] and report["runs"][0]["bottleneck"] is None
    report = json.loads(said("00000001", "--json", "-"))
    assert not report["bottlenecks_left_out"] and report["runs"][0]["bottleneck"]["name"] == "simulation-bound"
