"""A recorded search is decided again: each training follows from the ledger as it was before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.search_replay import bench_search_replay
from ledger_lab.errors import UserError
from tests.fakes.searches import replace_trainings, search_file, searched


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A search that has ended; its ledger is beside it."""
    replace_trainings(monkeypatch, tmp_path)
    path = search_file(tmp_path, budget_h=0.12)
    searched(path, tmp_path / "logs")
    return path


def replay(path: Path, *more: str) -> int:
    return bench_search_replay([str(path), "--log_root", str(path.parent / "logs"), *more])


def test_all_trainings_of_a_search_follow_from_its_ledger(recorded: Path, tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    assert replay(recorded, "--json", str(found)) == 0
    content = json.loads(found.read_text())
    assert content["same"] == content["trainings"] > 5 and content["different"] == []


def test_a_training_that_the_search_would_not_have_started_is_named(
    recorded: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without the first trial, another one would have been the best, and others would have followed."""
    gone = [
        journal.parent
        for journal in (recorded.parent / "logs").rglob("journal-*.jsonl")
        if b'-t0001"' in journal.read_bytes()
    ]
    assert gone
    for folder in gone:
        folder.rename(recorded.parent / folder.name)
    assert replay(recorded) == 1
    assert "another decision: s-" in capfd.readouterr().out


def test_without_trainings_there_is_nothing_to_check(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no training of the search s"):
        replay(search_file(tmp_path))
