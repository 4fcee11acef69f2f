"""Reads the ledger."""

from __future__ import annotations

import time
from pathlib import Path

from ledger_lab.ledger.assembly import assemble_ledger
from ledger_lab.ledger.cache import Cache, keep
from ledger_lab.ledger.directories import OnProgress, digest_directories
from ledger_lab.ledger.listing import list_journals
from ledger_lab.ledger.runs import Ledger

CACHED_FROM = 8 << 20
"""Total size of journals above which the cache is used [B]; less is read quickly."""


def read_ledger(
    root: Path,
    *,
    on_progress: OnProgress | None = None,
    use_cache: bool = True,
    tolerate_damage: bool = False,
) -> Ledger:
    """Read every run under a directory.

    Every line of every journal is verified, unless it was verified before and the journal has not changed since
    (:mod:`ledger_lab.ledger.cache`). The rows of a run are read when they are needed. Other processes may write to the
    ledger at the same time.

    Args:
        root: The directory, by default ``logs``.
        on_progress: Called with the bytes of journals that were read, and the bytes to read in all.
        use_cache: Whether to use the cache of earlier verifications. Without it, every row is parsed, too.
        tolerate_damage: Whether to leave damaged runs out and list the damage, instead of raising the first damage.

    Returns:
        The ledger; empty if there is no journal.

    Raises:
        LedgerDamageError: If a journal is damaged beyond a torn last line, or a journal or a directory can't be read;
            and damage is not tolerated.
    """
    listing = list_journals(root)
    cache = Cache(root) if use_cache and listing.size >= CACHED_FROM else None
    directories, read_bytes = digest_directories(listing, cache, on_progress, thorough=not use_cache)
    ledger = assemble_ledger(root, directories, listing.damage)
    if cache is not None and read_bytes >= CACHED_FROM:
        now_ns = time.time_ns()
        keep(root, ((each.name, each.to_keep(now_ns)) for each in directories))
    if ledger.damage and not tolerate_damage:
        raise ledger.damage[0]
    return ledger
