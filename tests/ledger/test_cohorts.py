"""The first declaration of a cohort counts, and its missing runs are shown."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import (
    CohortDeclared,
    Journal,
    LedgerDamageError,
    cohort_journal,
    declare_cohort,
    read_journal,
    read_ledger,
)
from ledger_lab.reports.cohort_summary import missing_runs
from ledger_lab.reports.summary import summarize_run
from tests.fakes.ledgers import write_run


def refusal(log_root: Path, name: str, size: int) -> str:
    """Declare a cohort that can't be declared, and return the one-line complaint."""
    with pytest.raises(UserError) as caught:
        declare_cohort(log_root, name, size)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_same_size_may_be_repeated_and_another_is_refused(tmp_path: Path) -> None:
    declare_cohort(tmp_path, "c", 5)
    before = cohort_journal(tmp_path, "c").read_bytes()
    declare_cohort(tmp_path, "c", 5)
    message = refusal(tmp_path, "c", 6)
    assert "--cohort_size 6: cohort c was declared with 5 runs" in message
    assert cohort_journal(tmp_path, "c").read_bytes() == before


def test_of_many_simultaneous_declarations_exactly_one_counts(tmp_path: Path) -> None:
    sizes = list(range(1, 17))
    refused: list[int] = []
    barrier = threading.Barrier(len(sizes))

    def declare(size: int) -> None:
        barrier.wait()
        try:
            declare_cohort(tmp_path, "c", size)
        except UserError:
            refused.append(size)

    threads = [threading.Thread(target=declare, args=(size,)) for size in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (row,) = read_journal(cohort_journal(tmp_path, "c")).rows
    assert isinstance(row, CohortDeclared)
    assert sorted([*refused, row.size]) == sizes
    assert [path.name for path in cohort_journal(tmp_path, "c").parent.iterdir()] == ["journal-declaration.jsonl"]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "-x", "a b", "a\n", "x" * 101, "<b>"])
def test_a_name_that_cannot_be_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    assert "--cohort " in refusal(tmp_path, name, 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, -1])
def test_a_cohort_of_zero_runs_is_refused(tmp_path: Path, size: int) -> None:
    assert f"--cohort_size {size}: must be a whole number of at least 1" in refusal(tmp_path, "c", size)


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot declare cohort c in" in refusal(tmp_path / "file", "c", 1)


def test_a_tampered_declaration_is_reported(tmp_path: Path) -> None:
    declare_cohort(tmp_path, "c", 5)
    path = cohort_journal(tmp_path, "c")
    path.write_bytes(path.read_bytes().replace(b'"size":5', b'"size":6'))
    assert "the row does not match its hash" in refusal(tmp_path, "c", 6)
    with pytest.raises(LedgerDamageError, match="does not match its hash"):
        read_ledger(tmp_path)


def test_the_declaration_of_another_cohort_is_refused(tmp_path: Path) -> None:
    declare_cohort(tmp_path, "c", 5)
    (tmp_path / "cohorts" / "c").rename(tmp_path / "cohorts" / "d")
    assert "declares cohort c, not d" in refusal(tmp_path, "d", 5)


def test_the_reader_returns_declared_cohorts_with_their_runs(tmp_path: Path) -> None:
    declare_cohort(tmp_path, "c", 3)
    declare_cohort(tmp_path, "empty", 2)
    write_run(tmp_path, "aa", cohort="c")
    write_run(tmp_path, "bb", cohort="undeclared")
    ledger = read_ledger(tmp_path)
    assert [(c.name, c.size, c.run_ids) for c in ledger.cohorts] == [("c", 3, ("aa",)), ("empty", 2, ())]
    assert [run.declared.run_id for run in ledger.runs] == ["aa", "bb"]


def test_with_more_runs_than_declared_none_is_missing(tmp_path: Path) -> None:
    declare_cohort(tmp_path, "c", 1)
    write_run(tmp_path, "aa", cohort="c")
    write_run(tmp_path, "bb", cohort="c")
    ledger = read_ledger(tmp_path)
    assert ledger.cohorts[0].run_ids == ("aa", "bb")
    assert missing_runs(ledger.cohorts, [summarize_run(run) for run in ledger.runs]) == {"c": 0}


def test_two_sizes_of_one_cohort_under_one_root_are_damage(tmp_path: Path) -> None:
    declare_cohort(tmp_path / "one", "c", 1)
    declare_cohort(tmp_path / "two", "c", 1)
    assert len(read_ledger(tmp_path).cohorts) == 1
    (tmp_path / "three").mkdir()
    with Journal(tmp_path / "three" / "journal-declaration.jsonl") as journal:
        journal.append(CohortDeclared(cohort="c", size=2))
    with pytest.raises(LedgerDamageError, match="cohort c has"):
        read_ledger(tmp_path)
