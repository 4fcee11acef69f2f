"""Reads the ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ledger_lab.ledger.assembly import assemble_ledger
from ledger_lab.ledger.digest import find_journals
from ledger_lab.ledger.digests import digest_journals
from ledger_lab.ledger.runs import Ledger


def read_ledger(
    root: Path,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    use_cache: bool = True,
    tolerate_damage: bool = False,
) -> Ledger:
    """Read every run under a directory.

    Every line of every journal is verified, unless it was verified before and the journal has not changed since
    (:mod:`ledger_lab.ledger.cache`). Other processes may write to the ledger at the same time.

    Args:
        root: The directory, by default ``logs``.
        on_progress: Called with the bytes of journals that were read, and the bytes to read in all.
        use_cache: Whether to use the cache of earlier verifications.
        tolerate_damage: Whether to leave damaged runs out and list the damage, instead of raising the first damage.

    Returns:
        The ledger; empty if there is no journal.

    Raises:
        LedgerDamageError: If a journal is damaged beyond a torn last line, and damage is not tolerated.
        UserError: If a journal or a directory can't be read.
    """
    ledger = assemble_ledger(root, digest_journals(find_journals(root), root if use_cache else None, on_progress))
    if ledger.damage and not tolerate_damage:
        raise ledger.damage[0]
    return ledger
