"""A journal that was compressed with gzip reads like the journal itself, and its hash chain is verified."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from benchmarks.synthetic_ledger import write_ledger
from ledger_lab.cli.verify import verify_ledger
from ledger_lab.ledger import LedgerDamageError, find_journals, read_journal, read_ledger
from ledger_lab.reports import summarize_run


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A small ledger."""
    root = tmp_path / "logs"
    root.mkdir()
    write_ledger(root, runs=2, rows=300)
    return root


def compress(path: Path) -> Path:
    """Put a compressed journal in a journal's place."""
    compressed = path.with_name(path.name + ".gz")
    compressed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()
    return compressed


def test_a_compressed_journal_reads_like_the_journal(ledger: Path) -> None:
    before = [(summarize_run(run), run.windows[0][1], run.results) for run in read_ledger(ledger).runs]
    journals = len(find_journals(ledger))
    for path in find_journals(ledger):
        compress(path)
    assert len(find_journals(ledger)) == journals
    assert [(summarize_run(run), run.windows[0][1], run.results) for run in read_ledger(ledger).runs] == before
    assert verify_ledger(["--log_root", str(ledger)]) == 0


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda data: data[:-20], "the compressed journal is damaged"),
        (lambda data: data + b"more", "the compressed journal is damaged"),
        (lambda data: b"no gzip" + data, "the compressed journal is damaged"),
        (lambda data: gzip.compress(gzip.decompress(data).replace(b"PhaseWindow", b"PhaseWindov", 1)), "its hash"),
    ],
)
def test_a_damaged_compressed_journal_is_detected(ledger: Path, spoil: object, complaint: str) -> None:
    path = compress(next(path for path in find_journals(ledger) if path.name == "journal-1-0.jsonl"))
    path.write_bytes(spoil(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(LedgerDamageError, match=complaint):
        read_journal(path)
