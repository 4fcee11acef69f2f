"""Reads a ledger again and again while it grows: each time, only what is new."""

from __future__ import annotations

import os
from pathlib import Path

from ledger_lab.ledger.assembly import assemble_ledger
from ledger_lab.ledger.cache import Cache
from ledger_lab.ledger.directories import Directory, OnProgress, digest_directories
from ledger_lab.ledger.listing import LedgerDamageError, Listing, Stamp, list_journals
from ledger_lab.ledger.reader import CACHED_FROM
from ledger_lab.ledger.rows import Status
from ledger_lab.ledger.runs import Ledger, Run


class LedgerFollower:
    """Reads a ledger repeatedly.

    The first reading is that of :func:`ledger_lab.ledger.read_ledger`. A later one lists the ledger, and verifies the
    rows that journals have gained. A journal that was replaced or cut is read as a whole. A run that has not changed is
    the same object as before, so that readers can keep what they computed from it. Rows that were verified once and
    then changed in place are not noticed here; ``scripts/verify_ledger.py`` finds them.
    """

    def __init__(self, root: Path) -> None:
        """Read nothing yet.

        Args:
            root: Root of the ledger.
        """
        self._root = root
        self._listed: dict[str, dict[str, Stamp | LedgerDamageError]] = {}
        self._directories: dict[str, Directory] = {}
        self._runs: dict[str, Run] = {}
        self.changes = 0
        """Number of readings that found something new."""

    def read(self, on_progress: OnProgress | None = None) -> Ledger:
        """Return the ledger as it is now; damaged runs are left out, and the damage is listed.

        Args:
            on_progress: Called with the bytes of journals that were read, and the bytes to read in all.
        """
        listing = list_journals(self._root)
        changed = {name: own for name, own in listing.directories.items() if self._listed.get(name) != own}
        cache = Cache(self._root) if not self._listed and listing.size >= CACHED_FROM else None
        self.changes += bool(changed) or listing.directories.keys() != self._listed.keys()
        read, _ = digest_directories(Listing(changed), cache, on_progress, earlier=self._directories)
        found = {each.name: each for each in read}
        kept = {name: found.get(name) or self._directories.get(name) for name in listing.directories}
        self._directories = {name: each for name, each in kept.items() if each is not None}
        self._listed = listing.directories
        # A run without an end is built again: it may count as incomplete once its processes are gone. So is a run whose
        # references were not all checked: what they name may stay missing.
        unchanged = {
            name: run
            for name, run in self._runs.items()
            if name not in changed
            and name in self._directories
            and self._directories[name].is_checked
            and run.attempts
            and run.attempts[-1].status is not Status.RUNNING
        }
        ledger = assemble_ledger(self._root, [*self._directories.values()], listing.damage, unchanged)
        self._runs = {os.fspath(run.directory): run for run in ledger.runs}
        return ledger
