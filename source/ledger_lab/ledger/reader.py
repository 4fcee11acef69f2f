"""Reads the ledger."""

from __future__ import annotations

from pathlib import Path

from ledger_lab.ledger.assembly import assemble_ledger
from ledger_lab.ledger.directories import OnProgress, digest_directories
from ledger_lab.ledger.listing import list_journals
from ledger_lab.ledger.runs import Ledger


def read_ledger(
    root: Path,
    *,
    on_progress: OnProgress | None = None,
    thorough: bool = False,
    tolerate_damage: bool = False,
) -> Ledger:
    """Read every run under a directory.

    Every line of every journal is verified. Scores, phase windows and telemetry are parsed when they are needed. Other
    processes may write to the ledger at the same time.

    Args:
        root: The directory, by default ``logs``.
        on_progress: Called with the bytes of journals that were read, and the bytes to read in all.
        thorough: Whether to parse every row now, and to check the tallies.
        tolerate_damage: Whether to leave damaged runs out and list the damage, instead of raising the first damage.

    Returns:
        The ledger; empty if there is no journal.

    Raises:
        LedgerDamageError: If a journal is damaged beyond a torn last line, or a journal or a directory can't be read;
            and damage is not tolerated.
    """
    listing = list_journals(root)
    directories = digest_directories(listing, on_progress, thorough=thorough)
    ledger = assemble_ledger(root, directories, listing.damage)
    if ledger.damage and not tolerate_damage:
        raise ledger.damage[0]
    return ledger
