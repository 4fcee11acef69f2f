"""Holes in journals: zeros in place of rows that have not reached the file server.

A host sends the pages that it has written to a file server in any order. So other hosts may see later rows of a journal
before earlier rows, with zeros in between. The zeros disappear when all pages have arrived. If the host goes down
before that, they stay. No row contains a zero byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import orjson

from ledger_lab.ledger.encoding import hash_matches, may_be_torn
from ledger_lab.ledger.kinds import KINDS

ARRIVES_WITHIN_NS = 2 * 60 * 1_000_000_000
"""Time after which every host sees what another host has written to a shared file system [ns]. NFS keeps attributes and
names for up to 60 s, and Linux keeps written pages for up to 35 s."""

_PAGE = 4096
"""Smallest size of a page [B]; all larger sizes are multiples of it."""

_ZEROS = re.compile(rb"\0+")


def begins_hole(line: bytes, offset: int, sequence: int) -> bool:
    """Tell whether a hole begins in a line: zeros up to the end of a page, after the beginning of the expected row.

    Args:
        line: The line, or the bytes after the last newline.
        offset: Its offset in the journal [B].
        sequence: Index of the row that is expected there, from 0.
    """
    zeros = _ZEROS.search(line)
    if zeros is None or not may_be_torn(line[: zeros.start()], sequence):
        return False
    return zeros.end() == len(line) or (offset + zeros.end()) % _PAGE == 0


def may_lie_behind(lines: Iterable[bytes]) -> bool:
    """Tell whether a writer whose host went down may have left these lines behind a hole.

    A writer waits until each durable row is on disk before it writes another row. So at most the last row is durable.

    Args:
        lines: The lines after the one in which the hole begins; the last one may lack its newline.
    """
    ended = False
    for line in lines:
        if ended:
            return False
        if not line.endswith(b"\n") or b"\0" in line:
            continue
        if not hash_matches(line):
            return False
        try:
            kind = KINDS[orjson.loads(line)["kind"]]
        except (KeyError, TypeError, ValueError):  # no row of a journal, whatever its hash
            return False
        ended = kind.DURABLE
    return True
