"""The ledger benchmarks run at a small scale, and refuse impossible arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import benchmark


def test_killed_writers_lose_no_durable_row(tmp_path: Path) -> None:
    finished = benchmark("kills", "--count", "25", "--json", tmp_path / "kills.json")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = json.loads((tmp_path / "kills.json").read_text())
    assert (found["kills"], found["troubles"]) == (25, [])
    assert set(found["statuses"]) <= {"lost"}
    assert found["rows"] >= found["acknowledged_rows"]
    assert found["after_first_row"] == sum(found["statuses"].values())


@pytest.mark.thorough  # the test above runs a benchmark of the ledger, too
def test_appending_and_reporting_are_measured(tmp_path: Path) -> None:
    arguments = ["--appends", "100", "--runs", "3", "--rows", "120", "--neighbours", "false", "--folder", tmp_path]
    arguments += ["--episodes", "16", "--other_files", "2"]
    finished = benchmark("ledger", *arguments, "--json", tmp_path / "found.json")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert [each["fsync"] for each in found["appending"]] == ["each row", "each MiB"]
    assert [each["program"] for each in found["reporting"]] == ["report.py", "verify_ledger.py"]
    report, verified = (each["stages_s"] for each in found["reporting"])
    assert report.keys() == {"read", "summarize", "render"}
    assert min(report.values()) >= 0 and verified is None
    assert "mlflow: not measured" in finished.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["found.json"]
