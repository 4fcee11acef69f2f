"""Excerpts of a run's journals: short journals that prove one checkpoint and can be read like the whole run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import orjson

from ledger_lab.ledger.content import JournalContent, open_journal
from ledger_lab.ledger.encoding import GENESIS, encode_line, encode_value, hash_of
from ledger_lab.ledger.listing import COMPRESSED
from ledger_lab.ledger.results import PanelResult
from ledger_lab.ledger.rows import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    PhaseWindow,
    ShutdownEnded,
    SupervisionStarted,
)
from ledger_lab.ledger.runs import Run
from ledger_lab.ledger.telemetry import Tally, Telemetry

_ENDS = (AttemptEnded.__name__, ShutdownEnded.__name__)
"""Kinds that are taken from the supervisors' journals."""
_DROPPED = (Telemetry.__name__, Tally.__name__)
"""Kinds that an excerpt never holds."""


class _Line(msgspec.Struct, frozen=True):
    """The parts of a line that an excerpt keeps."""

    time: str
    kind: str
    data: msgspec.Raw
    """The row's fields, as unparsed JSON."""


def write_excerpt(run: Run, folder: Path, checkpoint: str | None) -> None:
    """Write an excerpt of a run: one journal per process of each attempt, each with a hash chain of its own.

    Attempts that ended before their process wrote a row keep the journal of its supervisor, or an empty journal.

    An excerpt holds no telemetry and no stand-alone evaluations. Phase windows in a row become one window, which has
    their sum. The end of an attempt moves from its supervisor's journal into that of the process. All other rows are
    unchanged, with their original times.

    Args:
        run: The run.
        folder: Where the journals are created.
        checkpoint: The one checkpoint to keep with its results; ``None`` keeps all of them.

    Raises:
        OSError: If a journal can't be read or written.
    """
    for attempt in run.attempts:
        supervisions = {each.of(SupervisionStarted)[0].rank: each for each in attempt.supervisions}
        for journal in attempt.ranks:
            supervision = supervisions.pop(journal.of(AttemptStarted)[0].rank, None)
            lines = [*_lines(journal)]
            if supervision is not None:
                lines += (line for line in _lines(supervision) if line.kind in _ENDS)
            _write(folder / journal.path.name.removesuffix(COMPRESSED), _selected(lines, checkpoint))
        for supervision in supervisions.values():
            lines = [*_lines(supervision)]
            _write(folder / supervision.path.name.removesuffix(COMPRESSED), _selected(lines, checkpoint))
    numbers = {attempt.number for attempt in run.attempts}
    for number in {*range(1, max(numbers, default=0))} - numbers:
        (folder / f"journal-{number}-0.jsonl").touch()


def excerpt_of(journal: JournalContent, checkpoint: str) -> bytes:
    """Return an excerpt of one journal, such as that of a stand-alone evaluation.

    Args:
        journal: The journal.
        checkpoint: The one checkpoint to keep with its results.

    Returns:
        The content of the shorter journal, with a hash chain of its own and without hashes of other journals.

    Raises:
        OSError: If the journal can't be read.
    """
    return b"".join(_chained(_selected([*_lines(journal)], checkpoint)))


def _lines(journal: JournalContent) -> Iterator[_Line]:
    """Yield the lines of a verified journal, split into their parts."""
    with open_journal(journal.path) as file:
        yield from (msgspec.json.decode(line, type=_Line) for line in islice(file, journal.count))


def _selected(lines: list[_Line], checkpoint: str | None) -> Iterator[_Line]:
    """Yield the lines of an excerpt."""
    merged: _Line | None = None
    for line in lines:
        if line.kind in _DROPPED:
            continue
        if line.kind == PhaseWindow.__name__:
            merged = line if merged is None else _merge(merged, line)
            continue
        if checkpoint is not None and _checkpoint_of(line) not in (None, checkpoint):
            continue
        if merged is not None:
            yield merged
            merged = None
        yield _without_anchors(line)
    if merged is not None:
        yield merged


def _without_anchors(line: _Line) -> _Line:
    """Return a line without anchors, because the journals of an excerpt are shorter."""
    data = orjson.loads(bytes(line.data))
    return (
        line
        if not data.get("anchors")
        else _Line(line.time, line.kind, msgspec.Raw(encode_value({**data, "anchors": {}})))
    )


def _checkpoint_of(line: _Line) -> str | None:
    """Return the checkpoint of a line; ``None`` for lines of other kinds."""
    field = {CheckpointSaved.__name__: "path", PanelResult.__name__: "checkpoint"}.get(line.kind)
    return None if field is None else str(orjson.loads(bytes(line.data))[field])


def _merge(first: _Line, second: _Line) -> _Line:
    """Merge two phase windows into one."""
    before, after = (orjson.loads(bytes(each.data)) for each in (first, second))
    iteration = before["iteration"] if after["iteration"] is None else after["iteration"]
    window: dict[str, Any] = {**after, "iteration": iteration}
    for name in ("phase_ns", "device_bound_ns"):
        found: list[dict[str, int]] = [each[name] for each in (before, after) if each.get(name) is not None]
        if found:
            window[name] = dict(sum((Counter(each) for each in found), Counter()))
    return _Line(second.time, second.kind, msgspec.Raw(encode_value(window)))


def _write(path: Path, lines: Iterator[_Line]) -> None:
    """Write lines as a journal."""
    with path.open("xb") as file:
        file.writelines(_chained(lines))


def _chained(lines: Iterator[_Line]) -> Iterator[bytes]:
    """Yield the encoded lines of a journal, with a hash chain of their own."""
    previous = GENESIS
    for number, line in enumerate(lines):
        encoded = encode_line(number, line.time, line.kind, bytes(line.data), previous)
        yield encoded
        previous = hash_of(encoded)
