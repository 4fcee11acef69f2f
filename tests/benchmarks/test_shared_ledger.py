"""A ledger on a shared file system is read in the same way as a local one, and both are measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.shared_ledger import bench_shared_ledger


@pytest.mark.thorough  # it starts twelve programs
def test_both_places_are_measured_in_turns(tmp_path: Path) -> None:
    found_in, shared = tmp_path / "found.json", tmp_path / "shared"
    shared.mkdir()
    asked = ["--runs", "2", "--rows", "40", "--rounds", "1", "--shared", str(shared), "--folder", str(tmp_path)]
    assert bench_shared_ledger([*asked, "--json", str(found_in)]) == 0
    found = json.loads(found_in.read_text())
    assert [(each["where"], each["program"]) for each in found["readings"]] == [
        (where, program) for where in ("shared", "local") for program in ("report.py", "verify_ledger.py")
    ]
    assert min(each["processor_s"] for each in found["readings"]) > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["found.json", "shared"]
    assert list(shared.iterdir()) == []
