"""A refused request removes what it has written, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.training.supervision.journals import withdraw


def written(folder: Path, attempt: int, rank: int) -> Path:
    """Write the files of one process of an attempt; return the journal of its supervisor."""
    suffix = f"-{rank}" if rank else ""
    supervision = folder / f"journal-{attempt}-supervisor{suffix}.jsonl"
    for path in (
        supervision,
        folder / f"journal-{attempt}-telemetry{suffix}.jsonl",
        folder / f"journal-{attempt}-{rank}.jsonl",
        log_of(folder, attempt, rank),
    ):
        path.write_text("")
    return supervision


def log_of(folder: Path, attempt: int, rank: int) -> Path:
    """Return the log of a process."""
    return folder / f"console-{attempt}-{rank}.log"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_last_rank_removes_the_directory_of_a_first_attempt(tmp_path: Path, order: tuple[int, int]) -> None:
    folder = tmp_path / "run"
    (folder / "params").mkdir(parents=True)
    journals = {rank: written(folder, 1, rank) for rank in order}
    withdraw(journals[order[0]], log_of(folder, 1, order[0]), whole=True)
    assert (folder / f"journal-1-{order[1]}.jsonl").exists()
    assert not (folder / f"journal-1-{order[0]}.jsonl").exists()
    withdraw(journals[order[1]], log_of(folder, 1, order[1]), whole=True)
    assert not folder.exists()


def test_a_refused_resumption_leaves_the_earlier_attempt(tmp_path: Path) -> None:
    written(tmp_path, 1, 0)
    before = {path.name for path in tmp_path.iterdir()}
    withdraw(written(tmp_path, 2, 0), log_of(tmp_path, 2, 0), whole=False)
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_refused_evaluation_leaves_the_run(tmp_path: Path) -> None:
    written(tmp_path, 1, 0)
    before = {path.name for path in tmp_path.iterdir()}
    for name in ("supervisor", "telemetry", "0"):
        (tmp_path / f"journal-evaluation-ab12-{name}.jsonl").write_text("")
    withdraw(tmp_path / "journal-evaluation-ab12-supervisor.jsonl", None, whole=False)
    assert {path.name for path in tmp_path.iterdir()} == before
