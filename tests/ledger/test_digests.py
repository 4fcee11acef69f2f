"""Ledgers are read on all cores, and nothing that has changed meanwhile is believed."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from benchmarks.synthetic_ledger import write_ledger
from ledger_lab.errors import UserError
from ledger_lab.ledger import Journal, LedgerDamageError, PhaseWindow, find_journals, read_journal, read_ledger
from ledger_lab.ledger import content as content_module
from ledger_lab.ledger import cores as cores_module
from ledger_lab.ledger import directories as directories_module
from ledger_lab.ledger import listing as listing_module
from ledger_lab.ledger.tally import WindowSums
from tests.fakes.ledgers import result, window


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A small ledger."""
    root = tmp_path / "logs"
    root.mkdir()
    write_ledger(root, runs=3, rows=300)
    return root


def test_sums_are_those_of_the_rows(ledger: Path) -> None:
    for run in read_ledger(ledger).runs:
        (attempt,) = run.attempts
        expected = WindowSums()
        for row in attempt.windows:
            expected.add(row)
        assert attempt.sums == expected
        assert attempt.sums.count == len(attempt.windows) > 10
        assert sum(attempt.sums.phase_ns.values()) == attempt.sums.count * 390_000_000


def tamper(path: Path, old: bytes, new: bytes) -> int:
    """Change a journal without changing its size or its modification time, and return the line."""
    status, content = path.stat(), path.read_bytes()
    assert len(old) == len(new) and old in content
    path.write_bytes(content.replace(old, new, 1))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return content[: content.index(old)].count(b"\n") + 1


def test_several_processes_give_the_same_digests_as_one(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = read_ledger(ledger, thorough=True)
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(directories_module, "PARALLEL_FROM", 0)
    monkeypatch.setattr(directories_module, "_BATCH", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    pools: list[int] = []
    real = cores_module.ProcessPoolExecutor
    monkeypatch.setattr(
        cores_module,
        "ProcessPoolExecutor",
        lambda size, *how, **more: (pools.append(size), real(size, *how, **more))[1],
    )
    together = read_ledger(ledger, thorough=True, on_progress=lambda *each: seen.append(each))
    assert together == alone
    total = sum(path.stat().st_size for path in find_journals(ledger))
    assert len(seen) == 6 and seen[-1] == (total, total)
    assert pools == [3]
    path = find_journals(ledger)[2]
    line = tamper(path, b'"learn":', b'"Learn":')
    with pytest.raises(LedgerDamageError) as raised:
        read_ledger(ledger, thorough=True)
    assert (raised.value.path, raised.value.line) == (path, line)


def test_rows_that_change_between_two_reads_are_damage(ledger: Path) -> None:
    run = read_ledger(ledger).runs[0]
    journal = run.attempts[0].ranks[0]
    assert len(run.results) == 4
    line = tamper(journal.path, b'"needed":231', b'"needed":230')
    with pytest.raises(LedgerDamageError, match=f":{line}: the row was changed while the ledger was read"):
        _ = run.results
    with pytest.raises(LedgerDamageError, match=f":{line}: the row does not match its hash"):
        _ = journal.rows
    journal.path.unlink()
    with pytest.raises(UserError, match="cannot read .*: No such file"):
        _ = run.results


def test_a_view_does_not_change_while_its_journal_grows(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal-1-0.jsonl") as journal:
        journal.append(window(1, 1, {}, 1))
        view = read_journal(tmp_path / "journal-1-0.jsonl")
        journal.append(window(2, 2, {}, 2))
        journal.append(result("aa", "m", 3))
    assert [row.iteration for row in view.of(PhaseWindow)] == [1]
    assert view.count == 1


def test_the_number_of_rows_in_memory_is_limited(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_module, "_DECODED_ROWS", 150)
    for journal in read_ledger(ledger).journals:
        assert len(journal.rows) == journal.count
        assert sum(len(rows) for rows, _ in content_module._recent.values()) <= 150


def test_deleted_journals_are_skipped_and_unreadable_journals_are_errors(ledger: Path) -> None:
    paths = find_journals(ledger)
    listing = listing_module.list_journals(ledger)
    paths[0].unlink()
    paths[1].unlink()
    paths[1].mkdir()
    directories = directories_module.digest_directories(listing)
    found = {directory.path / name: each for directory in directories for name, each in directory.found.items()}
    assert list(found) == paths[1:]
    assert "is no file" in str(found[paths[1]])
    assert find_journals(ledger) == paths[2:], "a folder is no journal"
