"""Ledgers are read on all cores, and cached digests are used only for unchanged journals."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.synthetic_ledger import write_ledger
from ledger_lab.cli.verify import verify_ledger
from ledger_lab.errors import UserError
from ledger_lab.ledger import Journal, LedgerDamageError, PhaseWindow, find_journals, read_journal, read_ledger
from ledger_lab.ledger import cache as cache_module
from ledger_lab.ledger import content as content_module
from ledger_lab.ledger import cores as cores_module
from ledger_lab.ledger import directories as directories_module
from ledger_lab.ledger import listing as listing_module
from ledger_lab.ledger import reader as reader_module
from ledger_lab.ledger.cache import cache_file
from ledger_lab.ledger.tally import WindowSums
from ledger_lab.reports import summarize_run
from tests.fakes.ledgers import result, window, write_run


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small ledger that is read as if it were a large one, and left alone long enough."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(reader_module, "CACHED_FROM", 1)
    monkeypatch.setattr(cache_module, "SETTLED_NS", 20_000_000)
    root = tmp_path / "logs"
    root.mkdir()
    write_ledger(root, runs=3, rows=300)
    time.sleep(0.05)
    yield root


def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list that names every journal that is verified from now on."""
    paths: list[Path] = []
    real = directories_module.digest_journal
    monkeypatch.setattr(
        directories_module,
        "digest_journal",
        lambda path, **how: (paths.append(path), real(path, **how))[1],
    )
    return paths


def figures(root: Path) -> list[object]:
    return [summarize_run(run) for run in read_ledger(root).runs]


def test_sums_are_those_of_the_rows(ledger: Path) -> None:
    for run in read_ledger(ledger).runs:
        (attempt,) = run.attempts
        expected = WindowSums()
        for row in attempt.windows:
            expected.add(row)
        assert attempt.sums == expected
        assert attempt.sums.count == len(attempt.windows) > 10
        assert sum(attempt.sums.phase_ns.values()) == attempt.sums.count * 390_000_000


def test_an_unchanged_journal_is_not_read_again_and_gives_the_same_result(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = figures(ledger)
    assert cache_file(ledger).stat().st_mode & 0o077 == 0
    paths = opened(monkeypatch)
    assert figures(ledger) == first
    assert not paths
    new = write_run(ledger, "bbbbbbbb")
    assert len(figures(ledger)) == 4
    assert paths == [new / "journal-1-0.jsonl"]


def test_a_journal_that_grows_is_read_again(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ledger / "journal-1-0.jsonl"
    with Journal(path) as journal:
        journal.append(window(1, 1, {"learn": 1}, 1))
        time.sleep(0.05)
        read_ledger(ledger)
        paths = opened(monkeypatch)
        journal.append(window(2, 2, {"learn": 2}, 2))
        (grown,) = [each for each in read_ledger(ledger).journals if each.path == path]
    assert paths == [path]
    assert grown.windows.phase_ns == {"learn": 3}


def tamper(path: Path, old: bytes, new: bytes) -> int:
    """Change a journal without changing its size or its modification time, and return the line."""
    status, content = path.stat(), path.read_bytes()
    assert len(old) == len(new) and old in content
    path.write_bytes(content.replace(old, new, 1))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return content[: content.index(old)].count(b"\n") + 1


def test_a_row_changed_later_is_detected_despite_the_cache(ledger: Path) -> None:
    read_ledger(ledger)
    path = next(path for path in find_journals(ledger) if path.name == "journal-1-0.jsonl")
    line = tamper(path, b'"simulate":190000000', b'"simulate":190000001')
    with pytest.raises(LedgerDamageError) as raised:
        read_ledger(ledger)
    assert (raised.value.path, raised.value.line) == (path, line)


@pytest.mark.parametrize("content", [b"", b"rubbish", None])
def test_a_damaged_cache_is_ignored(ledger: Path, content: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    first = figures(ledger)
    kept = cache_file(ledger)
    whole = kept.read_bytes()
    damaged = whole.replace(b'"rows":', b'"rows":1', 1) if content is None else content
    assert damaged != whole
    kept.write_bytes(damaged)
    paths = opened(monkeypatch)
    assert figures(ledger) == first
    assert len(paths) == 6
    kept.unlink()
    assert figures(ledger) == first


def test_a_cache_that_cannot_be_written_only_costs_time(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert len(figures(ledger)) == 3


def test_verification_does_not_use_the_cache(
    ledger: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read_ledger(ledger)
    paths = opened(monkeypatch)
    assert verify_ledger(["--log_root", str(ledger)]) == 0
    assert len(paths) == 6
    assert capsys.readouterr().out == "6 journals, 300 rows, 0 torn, 0 damaged, 0 wrong scores\n"


def test_a_small_ledger_is_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_run(tmp_path / "logs", "aa")
    read_ledger(tmp_path / "logs")
    assert not (tmp_path / "cache").exists()


def test_several_processes_give_the_same_digests_as_one(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = read_ledger(ledger, use_cache=False)
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
    together = read_ledger(ledger, use_cache=False, on_progress=lambda *each: seen.append(each))
    assert together == alone
    total = sum(path.stat().st_size for path in find_journals(ledger))
    assert len(seen) == 6 and seen[-1] == (total, total)
    assert pools == [3]
    path = find_journals(ledger)[2]
    line = tamper(path, b'"learn":', b'"Learn":')
    with pytest.raises(LedgerDamageError) as raised:
        read_ledger(ledger, use_cache=False)
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
    directories, _ = directories_module.digest_directories(listing)
    found = {directory.path / name: each for directory in directories for name, each in directory.found.items()}
    assert list(found) == paths[1:]
    assert "is no file" in str(found[paths[1]])
    assert find_journals(ledger) == paths[2:], "a folder is no journal"
