"""Rows that must be written, whatever the disk says at first."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ledger_lab.ledger import Journal, Row

_RETRY_S, _RETRIES = 0.5, 20


def insist(journals: Sequence[Journal], row: Row) -> None:
    """Write a row into all journals, for as long as it is worth trying. Each takes it once, and keeps it.

    Args:
        journals: The journals.
        row: The row.

    Raises:
        OSError: If one of them took it not even then.
    """
    owing: dict[Journal, OSError] = {}
    for journal in journals:
        try:
            journal.append(row)
        except OSError as error:
            owing[journal] = error
    for _ in range(_RETRIES):
        if not owing:
            return
        time.sleep(_RETRY_S)
        for journal in list(owing):
            try:
                journal.settle()
            except OSError as error:
                owing[journal] = error
            else:
                del owing[journal]
    if owing:
        raise next(iter(owing.values()))
