"""Prints what a file of W&B's offline mode says, as JSON: run by the Python of the environment that has W&B.

The file is a log of LevelDB's format: a header of 7 bytes, then blocks of 32 KiB with records of checksum, length, type
and data; long records are cut into a first, middle and last part.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from wandb.proto import wandb_internal_pb2

BLOCK, HEADER = 32768, 7
FULL, LAST = 1, 4


def records(data: bytes) -> Iterator[bytes]:
    """Yield the records of a log."""
    place, parts = HEADER, b""
    while place + HEADER <= len(data):
        if BLOCK - place % BLOCK < HEADER:
            place += BLOCK - place % BLOCK  # too little room for another record: zeros up to the next block
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + HEADER])
        parts += data[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in (FULL, LAST):
            yield parts
            parts = b""


def items(message: object) -> dict[str, object]:
    """Return the items of a message."""
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in message}  # type: ignore[attr-defined]


def main() -> None:
    """Print it."""
    said: dict[str, object] = {"history": [], "config": {}, "summary": {}, "exit": None}
    for data in records(Path(sys.argv[1]).read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            said |= {"id": record.run.run_id, "project": record.run.project, "name": record.run.display_name}
            said["config"] |= items(record.run.config.update)
        elif kind == "config":
            said["config"] |= items(record.config.update)
        elif kind == "summary":
            said["summary"] |= items(record.summary.update)
        elif kind == "history":
            said["history"].append(items(record.history.item))
        elif kind == "exit":
            said["exit"] = record.exit.exit_code
    print(json.dumps(said))


if __name__ == "__main__":
    main()
