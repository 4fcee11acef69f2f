"""How a row becomes a line: JSON, chained by SHA-256 over the bytes as they stand in the file."""

from __future__ import annotations

import hashlib
import json
from typing import Any

VERSION = 2
"""Version of the line format."""

GENESIS = hashlib.sha256(f"ledger_lab/journal/v{VERSION}".encode()).hexdigest()
"""What the first row of a journal names as its predecessor."""

_HASH_KEY = b',"hash":"'
_TAIL_LENGTH = len(_HASH_KEY) + 64 + len(b'"}')


def canonical_json(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Encode a JSON value so that equal values give equal bytes.

    Raises:
        ValueError: If a number is not finite.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def encode_line(record: dict[str, Any]) -> tuple[bytes, str]:
    """Return a record with its hash as one line, newline included, and the hash.

    The hash stands last, and covers the bytes of the line before it: whoever verifies it need not encode anything.

    Raises:
        ValueError: If a number is not finite.
    """
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    body = text.encode()[:-1]
    row_hash = hashlib.sha256(body).hexdigest()
    return b"".join((body, _HASH_KEY, row_hash.encode(), b'"}\n')), row_hash


def hash_matches(line: bytes) -> bool:
    """Tell whether a line, without its newline, is what its hash was taken of."""
    body, tail = line[:-_TAIL_LENGTH], line[-_TAIL_LENGTH:]
    return tail == b"".join((_HASH_KEY, hashlib.sha256(body).hexdigest().encode(), b'"}'))
