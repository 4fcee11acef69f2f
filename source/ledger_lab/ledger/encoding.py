"""Encoding of rows as lines: JSON in a fixed layout, chained by SHA-256 over the bytes in the file.

``{"v":2,"seq":0,"time":"…","kind":"…","data":{…},"prev":"<64 hex digits>","hash":"<64 hex digits>"}``

The hash comes last and covers all bytes before it; ``prev`` is the hash of the row before. To verify a line, compare
bytes; only ``data`` needs to be parsed. Everywhere in this module, a line includes its newline.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import orjson

from ledger_lab.ledger.row import Row

VERSION = 2
"""Version of the line format."""

GENESIS = sha256(f"ledger_lab/journal/v{VERSION}".encode()).hexdigest()
"""Predecessor's hash in the first row of a journal."""

_HASH_KEY = b',"hash":"'
_HASH_LENGTH = len(_HASH_KEY) + 64 + len(b'"}\n')
_BEGIN = b'{"v":%d,"seq":' % VERSION


def canonical_json(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Encode a JSON value so that equal values give equal bytes.

    Raises:
        ValueError: If a number is not finite.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def encode_fields(row: Row) -> bytes:
    """Encode the fields of a row that holds no secrets.

    Raises:
        ValueError: If a number is not finite.
    """
    try:
        data = orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # a key that is not a plain string
        return encode_value(row.to_data())
    # The encoder also writes null for numbers that are not finite. Without a null, there are none.
    return encode_value(row.to_data()) if b"null" in data else data


def encode_value(data: dict[str, Any]) -> bytes:
    """Encode the fields of a row.

    Bytes of paths and arguments that are not UTF-8 become ``?``.

    Raises:
        ValueError: If a number is not finite.
    """
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)
    return text.encode("utf-8", "replace")


def _plain(value: Any) -> Any:  # noqa: ANN401 - any object
    """Return a NumPy number as a plain one, without loading NumPy.

    Raises:
        TypeError: If the value is no number.
    """
    if getattr(value, "shape", None) != ():
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    return value.item()


def encode_line(sequence: int, time: str, kind: str, data: bytes, previous: str) -> bytes:
    """Return a row as its line.

    Args:
        sequence: Index in the journal, from 0.
        time: Wall-clock time in UTC, ISO 8601 with milliseconds.
        kind: Kind of the row.
        data: Its fields as JSON.
        previous: Hash of the row before, or :data:`GENESIS`.
    """
    layout = b'{"v":%d,"seq":%d,"time":"%s","kind":"%s","data":%s,"prev":"%s"'
    body = layout % (VERSION, sequence, time.encode(), kind.encode(), data, previous.encode())
    return b'%s,"hash":"%s"}\n' % (body, sha256(body).hexdigest().encode())


def hash_of(line: bytes) -> str:
    """Return the hash at the end of a line."""
    return line[-67:-3].decode()


def hash_of_body(line: bytes) -> str:
    """Return the correct hash of a line."""
    return sha256(line[:-_HASH_LENGTH]).hexdigest()


def hash_matches(line: bytes) -> bool:
    """Tell whether a line matches its hash."""
    return line[-_HASH_LENGTH:] == b',"hash":"%s"}\n' % hash_of_body(line).encode()


def what_is_wrong(line: bytes, sequence: int, previous: str) -> str | None:
    """Explain in words why a line cannot be what its writer wrote at this position; ``None`` if it can.

    Args:
        line: The line.
        sequence: Its index in the journal, from 0.
        previous: Hash of the line before it, or :data:`GENESIS`.
    """
    try:
        record = orjson.loads(line)
    except ValueError:
        return "the line is not JSON"
    if not isinstance(record, dict) or "v" not in record:
        return "the line is not a row"
    if record["v"] != VERSION:
        return f"format version {record['v']!r} is not {VERSION}, which this LedgerLab reads"
    if set(record) != {"v", "seq", "time", "kind", "data", "prev", "hash"}:
        return "the line is not a row"
    if not hash_matches(line):
        return "the row does not match its hash"
    if (record["seq"], record["prev"]) != (sequence, previous):
        return "the row does not follow the row before it"
    return None


def may_be_torn(rest: bytes, sequence: int) -> bool:
    """Tell whether bytes without a newline can be the unfinished last line of a writer that was stopped.

    An unfinished line is the beginning of a row, or zeros, which some file systems write after a power failure. A
    complete row with anything but a newline after it is not an unfinished line.

    Args:
        rest: Bytes after the last newline of a journal.
        sequence: Index that the row would have had, from 0.
    """
    begun = rest.rstrip(b"\0")
    head = _BEGIN + b'%d,"time":"' % sequence
    hash_at = begun.rfind(_HASH_KEY)
    whole = hash_at + _HASH_LENGTH - len(b"\n")
    grown_over = hash_at >= 0 and whole < len(begun) and hash_matches(begun[:whole] + b"\n")
    return begun.startswith(head[: len(begun)]) and not grown_over
