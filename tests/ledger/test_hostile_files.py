"""Files named like journals neither exhaust memory nor time, and leave all other runs readable."""

from __future__ import annotations

import gzip
import os
import shutil
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from ledger_lab.ledger import AttemptStarted, Journal, LedgerDamageError, content, read_journal, read_ledger
from tests.conftest import script
from tests.fakes.ledgers import write_run

SPARSE = 400 << 20
"""Size of a file that takes no space on disk [B]; real ones may have terabytes."""

LONGEST = 4 << 20
"""Length of the longest line in these tests [B]."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of a sound run, with the folder of another one."""
    monkeypatch.setattr(content, "_LONGEST_LINE", LONGEST)
    write_run(tmp_path, "sound")
    (tmp_path / "other").mkdir()
    return tmp_path


def read_within(root: Path, most_bytes: int) -> list[str]:
    """Return the damage of a ledger whose sound run is read, within so much memory [B]."""
    tracemalloc.start()
    try:
        ledger = read_ledger(root, tolerate_damage=True)
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()
    assert [run.declared.run_id for run in ledger.runs] == ["sound"]
    return [damage.reason for damage in ledger.damage]


def test_a_sparse_file_is_not_read_into_memory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger_lab.ledger.reader._PARALLEL_FROM", 1 << 40)  # memory of this process is measured
    path = root / "other" / "journal-1-0.jsonl"
    path.touch()
    os.truncate(path, SPARSE)
    assert read_within(root, 6 * LONGEST) == ["the line has no end within 4 MiB: no writer wrote it"]


def test_a_line_that_never_ends_is_damage_also_after_sound_rows(root: Path) -> None:
    journal = write_run(root, "aa") / "journal-1-0.jsonl"
    rows = read_journal(journal).count
    os.truncate(journal, 2 * LONGEST)
    with pytest.raises(LedgerDamageError, match="no end within 4 MiB") as damage:
        read_journal(journal)
    assert damage.value.line == rows + 1


def test_damage_of_many_journals_does_not_keep_them_in_memory(root: Path) -> None:
    stream = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    packed = b"".join([*(stream.compress(bytes(1 << 20)) for _ in range(8)), stream.flush()])
    for number in range(5):
        (root / "other" / f"journal-{number}-0.jsonl.gz").write_bytes(packed)
    assert read_within(root, 6 * LONGEST) == ["the line has no end within 4 MiB: no writer wrote it"] * 5


def test_a_journal_of_several_attempts_is_damage(root: Path) -> None:
    with Journal(root / "other" / "journal-2-0.jsonl") as journal:
        for attempt in range(2, 5):
            journal.append(AttemptStarted(run_id="aa", attempt=attempt, rank=0, pid=1, host="h", wall_ns=1))
    ledger = read_ledger(root, tolerate_damage=True)
    assert [run.declared.run_id for run in ledger.runs] == ["sound"]
    assert [(each.line, each.reason) for each in ledger.damage] == [
        (2, "a second process started here: each has its own journal")
    ]


def test_a_folder_that_cannot_be_read_is_named_and_leaves_all_runs_readable(root: Path) -> None:
    run_dir = write_run(root, "aa")
    (run_dir / "kernel").symlink_to("/proc")
    folder = os.open(run_dir, os.O_RDONLY)
    for _ in range(900):
        os.mkdir("deeper", dir_fd=folder)
        below = os.open("deeper", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    ledger = read_ledger(root, tolerate_damage=True)
    assert [run.run_id for run in ledger.runs] == ["sound", "aa"]
    deep, kernel = sorted(ledger.damage, key=lambda damage: damage.path)
    assert "File name too long" in deep.reason and len(str(deep)) < 1000
    assert kernel.path == run_dir / "kernel"
    finished = script("report", "--log_root", root)
    assert (finished.returncode, len(finished.stderr.splitlines())) == (1, 2)
    assert "aa" in finished.stdout and "sound" in finished.stdout
    shutil.rmtree(run_dir)  # pytest would not manage it


def test_a_journal_that_cannot_be_read_leaves_only_its_run_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = write_run(root, "aa") / "journal-1-0.jsonl"
    real = os.open

    def refuse(path: Any, *how: Any, **more: Any) -> int:
        if path == hidden:
            raise PermissionError(13, "Permission denied", str(path))  # root may read everything
        return real(path, *how, **more)

    monkeypatch.setattr(os, "open", refuse)
    ledger = read_ledger(root, tolerate_damage=True)
    assert [run.run_id for run in ledger.runs] == ["sound"]
    (damage,) = ledger.damage
    assert damage.path == hidden and "cannot be read: Permission denied" in damage.reason


def test_a_compressed_journal_is_decompressed_only_as_far_as_it_holds_rows(root: Path) -> None:
    packed = gzip.compress(b"\n" * (20 << 20), compresslevel=1)
    (root / "other" / "journal-2-0.jsonl.gz").write_bytes(packed)
    assert read_within(root, 2 * LONGEST) == ["the line is not JSON"]
