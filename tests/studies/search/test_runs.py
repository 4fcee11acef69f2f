"""The score of a run's last policy, by which the members of a population are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.ledger import AttemptStarted, CheckpointSaved, Journal, Row, Run, read_ledger
from ledger_lab.studies.search.search import last_return, last_success
from tests.fakes.ledgers import SECOND, proof_of, result, sha256_of, window, write_proven, write_run


def only_run(root: Path) -> Run:
    (run,) = read_ledger(root).runs
    return run


def continued(directory: Path, attempt: int, *rows: Row) -> None:
    """Write a further attempt of a run, whose directory has its id as name."""
    with Journal(directory / f"journal-{attempt}-0.jsonl") as journal:
        journal.append(
            AttemptStarted(run_id=directory.name, attempt=attempt, rank=0, pid=2**22 + 1, host="h", wall_ns=1)
        )
        for row in rows:
            journal.append(row)


def test_the_last_policy_counts_and_not_the_best_one(tmp_path: Path) -> None:
    write_run(tmp_path, "one", scores=(9, 5), target_success=0.5)
    assert last_success(only_run(tmp_path)) == 0.5


@pytest.mark.parametrize("invalid", [None, "the physics engine ran out of room"])
def test_a_last_policy_without_a_valid_score_has_none(tmp_path: Path, invalid: str | None) -> None:
    run_dir = write_run(tmp_path, "one", scores=(9, 9), target_success=0.5)
    sha256 = sha256_of("one", "model_3.pt")
    saved = CheckpointSaved(path="model_3.pt", sha256=sha256, size_bytes=1, iteration=3, env_steps=120, wall_ns=SECOND)
    score = result("one", "model_3.pt", 9, purpose="check", invalid=invalid)
    continued(run_dir, 2, saved, *([] if invalid is None else [score]))
    assert last_success(only_run(tmp_path)) is None


def test_a_policy_that_no_run_can_begin_with_has_no_score(tmp_path: Path) -> None:
    write_run(tmp_path / "enough", "one", target_success=0.5, error_budget=0.05)
    write_run(tmp_path / "little", "two", target_success=0.5, error_budget=0.001)
    assert last_success(only_run(tmp_path / "enough")) == 0.9
    assert last_success(only_run(tmp_path / "little")) is None


def test_proofs_use_up_the_error_budget(tmp_path: Path) -> None:
    for run_id, proofs, found in (("few", 2, 0.9), ("many", 12, None)):
        root = tmp_path / run_id
        failed = [proof_of(run_id, number, 0, 240) for number in range(1, proofs + 1)]
        write_proven(root, run_id, *failed, target_success=0.5)
        last = f"model_{proofs}.pt"
        row = CheckpointSaved(
            path=last, sha256=sha256_of(run_id, last), size_bytes=1, iteration=9, env_steps=9, wall_ns=1
        )
        continued(only_run(root).directory, 3, row, result(run_id, last, 9, purpose="check"))
        assert last_success(only_run(root)) == found


def test_the_last_return_is_that_of_the_last_window_that_has_one(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "one")
    assert last_return(only_run(tmp_path)) is None
    rows = []
    for iteration, mean_return in ((3, 1.5), (4, 2.5), (5, None)):
        row = window(iteration, 40 * iteration, {"simulate": SECOND}, iteration * SECOND)
        row.figures.update({} if mean_return is None else {"mean_return": mean_return})
        rows.append(row)
    continued(run_dir, 2, *rows)
    assert last_return(only_run(tmp_path)) == 2.5
