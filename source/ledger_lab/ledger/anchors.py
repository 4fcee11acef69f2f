"""What a row says of other journals of its run, so that a journal that was cut or removed later is noticed.

A hash chain shows every change but one: rows that are missing at its end. So what is written last about a run, and
whatever begins to write about it later, names the journals that are there, with their rows so far.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.ledger.digest import COMPRESSED, Digest, LedgerDamageError, digest_journal, is_journal, open_journal
from ledger_lab.ledger.encoding import hash_of
from ledger_lab.ledger.rows import Anchor


def anchors_of(directory: Path, *, but: Iterable[Path] = ()) -> dict[str, Anchor]:
    """Return how far the journals of a run have been written.

    Args:
        directory: The run's directory.
        but: Journals to leave out: those of the caller.

    Returns:
        Anchors by the names of the journals, without the ending of a compressed one. Journals that are
        empty, damaged or unreadable are left out.
    """
    anchors = {}
    for path in sorted(directory.glob("journal-*")):
        if path in but or not is_journal(path):
            continue
        try:
            _, digest = digest_journal(path, thorough=False)
            _bring_to_disk(path)
        except (LedgerDamageError, OSError):
            continue  # a reader of the ledger finds out; the row that is about to be written must not wait for that
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
    """Name of the journal that it is about."""
    anchor: Anchor
    holder: Path


def require_anchored(anchored: Iterable[Anchored], journals: Mapping[str, tuple[Path, Digest]]) -> None:
    """Check that journals still have the rows that they had when others named them.

    Args:
        anchored: What others said of journals.
        journals: Paths and digests of the journals that there are, by their names without the ending of a compressed
            one.

    Raises:
        LedgerDamageError: If a journal is missing, was cut, or is another one. Telemetry may be missing: it has a
            journal of its own so that it can be left out of what is kept.
    """
    for each in anchored:
        if each.name not in journals:
            if "-telemetry" in each.name:
                continue
            raise LedgerDamageError(each.holder, 1, f"{each.name} is missing: it had {each.anchor.rows} rows")
        path, digest = journals[each.name]
        if digest.rows < each.anchor.rows:
            raise LedgerDamageError(
                path, digest.rows + 1, f"it was cut: {each.holder.name} knows {each.anchor.rows} rows of it"
            )
        if _hash_at(path, digest, each.anchor.rows) != each.anchor.hash:
            raise LedgerDamageError(path, each.anchor.rows, f"it is not the journal that {each.holder.name} knows")


def _hash_at(path: Path, digest: Digest, rows: int) -> str:
    """Return the hash of the last of so many rows of a verified journal."""
    if rows == digest.rows:
        return digest.last_hash
    for place in digest.places:
        if place.sequence == rows - 1:
            return place.hash
    with open_journal(path) as file:
        for _ in range(rows - 1):
            file.readline()
        return hash_of(file.readline()).decode()
