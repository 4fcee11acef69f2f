"""Anchors: rows that name the other journals of a run, so that cut or removed journals are detected.

A hash chain reveals every change except missing rows at its end. So the last row about a run, and the first row of
each later attempt or evaluation, name all journals of the run with their number of rows and last hash.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from ledger_lab.ledger.content import JournalContent, open_journal, read_journal
from ledger_lab.ledger.encoding import hash_of
from ledger_lab.ledger.listing import COMPRESSED, LedgerDamageError, is_journal
from ledger_lab.ledger.rows import Anchor, AttemptStarted, EvaluationStarted, ShutdownEnded


def anchors_of(directory: Path, *, but: Iterable[Path] = ()) -> dict[str, Anchor]:
    """Return how far the journals of a run have been written.

    Args:
        directory: The run's directory.
        but: Journals to leave out, such as the caller's own.

    Returns:
        Anchors by the names of the journals, without the suffix of compressed journals. Journals that are
        empty, damaged or unreadable are left out.
    """
    anchors = {}
    for path in sorted(directory.glob("journal-*")):
        if path in but or not is_journal(path.name):
            continue
        try:
            journal = read_journal(path)
            _bring_to_disk(path)
        except (LedgerDamageError, OSError):
            continue  # readers of the ledger report it; it must not keep the caller from writing its row
        if journal.count:
            anchors[path.name.removesuffix(COMPRESSED)] = Anchor(rows=journal.count, hash=journal.last_hash)
    return anchors


def _bring_to_disk(path: Path) -> None:
    """Write what a journal holds to disk: its writer may not have done so yet.

    Otherwise, a power failure could take rows that an anchor on disk names.

    Raises:
        OSError: If that is not possible.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_anchored(journals: Sequence[JournalContent], arrived: datetime) -> None:
    """Check that journals still have the rows that anchors in other journals of their directory name.

    Args:
        journals: All journals of a directory.
        arrived: Time of the last row whose anchors are checked.

    Raises:
        LedgerDamageError: If a journal is missing, was cut, or was replaced. Journals of telemetry may be missing,
            because they need not be kept.
    """
    by_name = {journal.path.name.removesuffix(COMPRESSED): journal for journal in journals}
    for holder in journals:
        anchoring: list[tuple[AttemptStarted | EvaluationStarted | ShutdownEnded, datetime]] = []
        anchoring += holder.timed(AttemptStarted)
        anchoring += holder.timed(EvaluationStarted)
        anchoring += holder.timed(ShutdownEnded)
        for name, anchor in (each for row, time in anchoring if time <= arrived for each in row.anchors.items()):
            journal = by_name.get(name)
            if journal is None:
                if "-telemetry" in name:
                    continue
                raise LedgerDamageError(holder.path, 1, f"{name} is missing: it had {anchor.rows} rows")
            if journal.count < anchor.rows:
                what = f"it was cut: {holder.path.name} names {anchor.rows} rows of it"
                raise LedgerDamageError(journal.path, journal.count + 1, what)
            if _hash_at(journal, anchor.rows) != anchor.hash:
                what = f"it is not the journal that {holder.path.name} names"
                raise LedgerDamageError(journal.path, anchor.rows, what)


def _hash_at(journal: JournalContent, rows: int) -> str:
    """Return the hash of the last row among the first ``rows`` rows of a verified journal."""
    if rows == journal.count:
        return journal.last_hash
    with open_journal(journal.path) as file:
        for _ in range(rows - 1):
            file.readline()
        return hash_of(file.readline())
