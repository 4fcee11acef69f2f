"""Anchors: rows that name the other journals of a run, so that cut or removed journals are detected.

A hash chain reveals every change except missing rows at its end. So the last row about a run, and the first row of
each later attempt or evaluation, name all journals of the run with their number of rows and last hash.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ledger_lab.ledger.compressed import open_journal
from ledger_lab.ledger.digest import Digest, digest_journal
from ledger_lab.ledger.encoding import hash_of
from ledger_lab.ledger.listing import COMPRESSED, LedgerDamageError, is_journal
from ledger_lab.ledger.rows import Anchor


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
            digest = digest_journal(path, thorough=False)
            _bring_to_disk(path)
        except (LedgerDamageError, OSError):
            continue  # readers of the ledger report it; it must not keep the caller from writing its row
        if digest.rows:
            anchors[path.name.removesuffix(COMPRESSED)] = Anchor(rows=digest.rows, hash=digest.last_hash)
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


@dataclass(frozen=True)
class Anchored:
    """An anchor, and the journal that holds it."""

    name: str
    """Name of the journal that the anchor describes."""
    anchor: Anchor
    holder: Path
    named_at: datetime
    """When the row was written that holds the anchor."""


def require_anchored(anchored: Iterable[Anchored], journals: Mapping[str, tuple[Path, Digest]]) -> None:
    """Check that journals still have the rows of their anchors.

    Args:
        anchored: The anchors.
        journals: Paths and digests of the existing journals, by their names without the suffix of compressed journals.

    Raises:
        LedgerDamageError: If a journal is missing, was cut, or was replaced. Journals of telemetry may be missing,
            because they need not be kept.
    """
    for each in anchored:
        if each.name not in journals:
            if "-telemetry" in each.name:
                continue
            raise LedgerDamageError(each.holder, 1, f"{each.name} is missing: it had {each.anchor.rows} rows")
        path, digest = journals[each.name]
        if digest.rows < each.anchor.rows:
            raise LedgerDamageError(
                path, digest.rows + 1, f"it was cut: {each.holder.name} names {each.anchor.rows} rows of it"
            )
        if _hash_at(path, digest, each.anchor.rows) != each.anchor.hash:
            raise LedgerDamageError(path, each.anchor.rows, f"it is not the journal that {each.holder.name} names")


def _hash_at(path: Path, digest: Digest, rows: int) -> str:
    """Return the hash of the last row among the first ``rows`` rows of a verified journal."""
    if rows == digest.rows:
        return digest.last_hash
    for place in digest.places:
        if place.sequence == rows - 1:
            return place.hash
    with open_journal(path) as file:
        for _ in range(rows - 1):
            file.readline()
        return hash_of(file.readline()).decode()
