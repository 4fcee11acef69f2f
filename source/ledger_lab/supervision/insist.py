"""Writes rows that must not be lost to a temporary disk error."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ledger_lab.ledger import Journal, Row

_RETRY_S, _RETRIES = 0.5, 20


def insist(journals: Sequence[Journal], row: Row) -> None:
    """Write a row into all journals, retrying for 10 s. Each journal gets the row once.

    Args:
        journals: The journals.
        row: The row.

    Raises:
        OSError: If a journal still could not be written.
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
