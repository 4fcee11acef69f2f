"""Scores of checkpoints: the same wherever they are taken, or none at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ledger_lab.ledger import EvaluationEnded, EvaluationStarted, Status, read_journal, read_ledger
from ledger_lab.ledger.reader import find_journals
from tests.conftest import one_run_dir, script


@pytest.fixture
def copy_of_run(trained: Path, tmp_path: Path) -> Path:
    """Root of a ledger that a test may spoil."""
    shutil.copytree(trained, tmp_path / "logs")
    return tmp_path / "logs"


def test_stand_alone_scores_agree_episode_by_episode_in_any_slot_and_company(copy_of_run: Path) -> None:
    run_dir = one_run_dir(copy_of_run)
    in_training = {row.checkpoint: row.outcomes for row in read_ledger(copy_of_run).runs[0].results}
    finished = script("evaluate", run_dir / "model_2.pt", run_dir / "model_0.pt", "--log_root", copy_of_run,
                      "--device", "cpu")  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (path,) = [path for path in find_journals(copy_of_run) if "evaluation" in path.name]
    journal = read_journal(path)
    (started,), (ended,) = journal.of(EvaluationStarted), journal.of(EvaluationEnded)
    assert started.checkpoints == ["model_2.pt", "model_0.pt"]
    assert ended.status is Status.COMPLETED
    stand_alone = read_ledger(copy_of_run).runs[0].results[3:]
    assert [row.checkpoint for row in stand_alone] == ["model_2.pt", "model_0.pt"]
    for row in stand_alone:
        assert row.outcomes == in_training[row.checkpoint]


def spoil_bytes(run_dir: Path) -> str:
    (run_dir / "model_1.pt").write_bytes(b"not a checkpoint")
    return "SHA-256"


def remove(run_dir: Path) -> str:
    (run_dir / "model_1.pt").unlink()
    return "No such file"


@pytest.mark.parametrize("spoil", [spoil_bytes, remove])
def test_a_changed_checkpoint_is_an_error_and_no_number(copy_of_run: Path, spoil) -> None:  # noqa: ANN001
    complaint = spoil(one_run_dir(copy_of_run))
    before = find_journals(copy_of_run)
    finished = script("evaluate", one_run_dir(copy_of_run), "--log_root", copy_of_run)
    assert finished.returncode == 2
    assert complaint in finished.stderr
    assert len(finished.stderr.strip().splitlines()) == 1, finished.stderr
    assert find_journals(copy_of_run) == before
