"""Writes rows that must not get lost because of a temporary disk error."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ledger_lab.ledger import Journal, Row

_RETRY_S, _RETRIES = 0.5, 20


def insist(rows: Mapping[Journal, Row]) -> None:
    """Write a row into each of several journals, retrying for 10 s. Each journal gets its row once.

    Args:
        rows: The journals with their rows.

    Raises:
        OSError: If a journal still could not be written.
    """
    owing: dict[Journal, OSError] = {}
    for journal, row in rows.items():
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
