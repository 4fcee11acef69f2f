"""How a row becomes a line: canonical JSON, chained by SHA-256."""

from __future__ import annotations

import hashlib
import json
from typing import Any

VERSION = 1
"""Version of the line format."""

GENESIS = hashlib.sha256(b"ledger_lab/journal/v1").hexdigest()
"""What the first row of a journal names as its predecessor."""


def canonical_json(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Encode a JSON value so that equal values give equal bytes.

    Raises:
        ValueError: If a number is not finite.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def line_hash(record: dict[str, Any]) -> str:
    """Return the hash of a record, over everything but the hash itself."""
    return hashlib.sha256(canonical_json({key: value for key, value in record.items() if key != "hash"})).hexdigest()


def encode_line(record: dict[str, Any]) -> tuple[bytes, str]:
    """Return the record with its hash as one line, newline included, and the hash."""
    row_hash = line_hash(record)
    return canonical_json({**record, "hash": row_hash}) + b"\n", row_hash
