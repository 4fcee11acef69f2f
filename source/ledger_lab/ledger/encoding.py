"""Encoding of rows as lines: JSON in a fixed layout, chained by SHA-256 over the bytes in the file.

``{"v":2,"seq":0,"time":"…","kind":"…","data":{…},"prev":"<64 hex digits>","hash":"<64 hex digits>"}``

The hash comes last and covers all bytes before it; ``prev`` is the hash of the row before. To verify a line, compare
bytes; only ``data`` needs to be parsed. Everywhere in this module, a line includes its newline.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from operator import and_
from typing import Any, NamedTuple

import orjson

from ledger_lab.ledger.row import Row

VERSION = 2
"""Version of the line format."""

GENESIS = sha256(f"ledger_lab/journal/v{VERSION}".encode()).hexdigest().encode()
"""Predecessor's hash in the first row of a journal."""

TIME_LENGTH = len("2026-01-01T00:00:00.000+00:00")
"""Length of a line's time, which is right before the kind [B]."""

_FIRST_YEAR, _LAST_YEAR = 1970, 2199
"""First and last year of a line's time. A machine without a clock starts in 1970. The limits keep times valid after
conversion to local time."""

_KIND_KEY, _DATA_KEY, _HASH_KEY = b'","kind":"', b'","data":', b',"hash":"'
_HASH_LENGTH = len(_HASH_KEY) + 64 + len(b'"}\n')
_BEGIN = b'{"v":%d,"seq":' % VERSION
_HEAD, _TAIL = _BEGIN + b'%d,"time":"', b',"prev":"%s","hash":"%s"}\n'

TAIL_LENGTH = len(b',"prev":""') + 64 + _HASH_LENGTH
"""Length of a line after its data [B]."""


class Line(NamedTuple):
    """The parts of a line."""

    time: str
    kind: str
    data: bytes
    """The row's fields, as unparsed JSON."""


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


def encode_line(sequence: int, time: str, kind: str, data: bytes, previous: bytes) -> bytes:
    """Return a row as its line.

    Args:
        sequence: Index in the journal, from 0.
        time: Wall-clock time in UTC, ISO 8601 with milliseconds.
        kind: Kind of the row.
        data: Its fields as JSON.
        previous: Hash of the row before, or :data:`GENESIS`.
    """
    layout = b'{"v":%d,"seq":%d,"time":"%s","kind":"%s","data":%s,"prev":"%s"'
    body = layout % (VERSION, sequence, time.encode(), kind.encode(), data, previous)
    return b'%s,"hash":"%s"}\n' % (body, sha256(body).hexdigest().encode())


def hash_of(line: bytes) -> bytes:
    """Return the hash at the end of a line."""
    return line[-67:-3]


def verify_lines(lines: Sequence[bytes], sequence: int, previous: bytes) -> list[str]:
    """Check that lines are exactly what their writer wrote at this position.

    Args:
        lines: The lines.
        sequence: Index of the first line, from 0.
        previous: Hash of the line before it, or :data:`GENESIS`.

    Returns:
        The hashes of all lines before the first wrong one; :func:`what_is_wrong` explains it.
    """
    # A ledger has millions of lines, so the work per line must not need a Python frame.
    hashes = [sha256(line[:-_HASH_LENGTH]).hexdigest() for line in lines]
    if lines and _all_fit(lines, sequence, zip([previous.decode(), *hashes], hashes, strict=False)):
        return hashes
    heads = map(_HEAD.__mod__, range(sequence, sequence + len(lines)))
    owns = [own.encode() for own in hashes]
    tails = map(_TAIL.__mod__, zip([previous, *owns], owns, strict=False))
    fits = [*map(and_, map(bytes.startswith, lines, heads), map(bytes.endswith, lines, tails))]
    return hashes[: fits.index(False)] if False in fits else hashes


def _all_fit(lines: Sequence[bytes], sequence: int, links: Iterable[tuple[str, str]]) -> bool:
    """Tell whether lines begin and end as their writer wrote them, all in one comparison.

    Args:
        lines: The lines.
        sequence: Index of the first line, from 0.
        links: Hash of the line before, and own hash, of each line.

    Returns:
        ``True`` only if every line fits. ``False`` also if the indices of the lines differ in their numbers of digits.
    """
    heads = (_HEAD * len(lines)) % tuple(range(sequence, sequence + len(lines)))
    width = len(_HEAD % sequence)
    if heads != b"".join([line[:width] for line in lines]):
        return False
    # All pieces have at most this length, so equal sums of their lengths mean equal pieces.
    tails = "".join([f',"prev":"{before}","hash":"{own}"}}\n' for before, own in links])
    return tails.encode() == b"".join([line[-TAIL_LENGTH:] for line in lines])


def split_line(line: bytes, kind_at: int) -> Line:
    """Split a verified line into its parts.

    Args:
        line: The line.
        kind_at: Offset of its kind [B].

    Raises:
        ValueError: If it does not have the layout of a line.
    """
    mark, kind_begins = line[kind_at : kind_at + len(_KIND_KEY)], kind_at + len(_KIND_KEY)
    kind_ends = line.find(_DATA_KEY, kind_begins)
    if mark != _KIND_KEY or kind_ends < 0:
        raise ValueError("it is not laid out as a row")
    data = line[kind_ends + len(_DATA_KEY) : -TAIL_LENGTH]
    return Line(line[kind_at - TIME_LENGTH : kind_at].decode(), line[kind_begins:kind_ends].decode(), data)


def parse_time(text: str) -> datetime:
    """Return the time of a line.

    Args:
        text: ISO 8601, in UTC.

    Raises:
        ValueError: If it is anything else, or far outside the years in which rows are written.
    """
    time = datetime.fromisoformat(text)
    if time.utcoffset() != timedelta(0) or not _FIRST_YEAR <= time.year <= _LAST_YEAR:
        raise ValueError(f"{text!r} is not a time in UTC between {_FIRST_YEAR} and {_LAST_YEAR}")
    return time


def kind_and_data(kind: str) -> bytes:
    """Return the bytes between the time and the data of a row of this kind."""
    return b"".join((_KIND_KEY, kind.encode(), _DATA_KEY))


def kind_begins(sequence: int) -> int:
    """Return the offset of the kind in the line of a row with this index, from 0 [B]."""
    return len(_HEAD % sequence) + TIME_LENGTH


def hash_of_body(line: bytes) -> bytes:
    """Return the correct hash of a line."""
    return sha256(line[:-_HASH_LENGTH]).hexdigest().encode()


def hash_matches(line: bytes) -> bool:
    """Tell whether a line matches its hash."""
    return line[-_HASH_LENGTH:] == b',"hash":"%s"}\n' % hash_of_body(line)


def what_is_wrong(line: bytes) -> str:
    """Explain in words why :func:`verify_lines` does not accept a line."""
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
    return "the row does not follow the row before it"


def begins_like_a_row(line: bytes) -> bool:
    """Tell whether a line, or its beginning, begins like a row."""
    return line.startswith(_BEGIN) or _BEGIN.startswith(line)


def may_be_torn(rest: bytes, sequence: int) -> bool:
    """Tell whether bytes without a newline can be the unfinished last line of a writer that was stopped.

    An unfinished line is the beginning of a row, or zeros, which some file systems write after a power failure. A
    complete row with anything but a newline after it is not an unfinished line.

    Args:
        rest: Bytes after the last newline of a journal.
        sequence: Index that the row would have had, from 0.
    """
    begun = rest.rstrip(b"\0")
    head = _HEAD % sequence
    hash_at = begun.rfind(_HASH_KEY)
    whole = hash_at + _HASH_LENGTH - len(b"\n")
    grown_over = hash_at >= 0 and whole < len(begun) and hash_matches(begun[:whole] + b"\n")
    return begun.startswith(head[: len(begun)]) and not grown_over
