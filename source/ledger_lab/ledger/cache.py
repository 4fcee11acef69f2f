"""Digests of journals that were read before, kept beside no ledger, and believed only while nothing has been touched.

A digest counts as long as inode, size, modification time and change time of its journal are what they were when every
line was verified; no program can set the change time. The cache holds sums and places, never rows: a row is read
from its journal, and its hash verified, each time. ``scripts/verify_ledger.py`` never looks here. One JSON file per
ledger root in ``$XDG_CACHE_HOME/ledger_lab`` (by default ``~/.cache/ledger_lab``); it may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import orjson

from ledger_lab.ledger.digest import Digest, Stamp
from ledger_lab.ledger.encoding import VERSION

SETTLED_NS = 2_000_000_000
"""How long nobody must have touched a journal before its digest is kept [ns]. Within one tick of the file system's
clock, two changes can bear the same time."""

_FORMAT = f"ledger_lab digests 3 of rows {VERSION}".encode()
"""To be raised whenever the meaning of a digest changes."""

Digests = Mapping[Path, tuple[Stamp, Digest]]
"""Digests with the stamps that their journals bore when they were read."""


def cache_file(root: Path) -> Path:
    """Return where the digests of a ledger are kept.

    Args:
        root: Root of the ledger.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "ledger_lab" / f"digests-{hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:32]}.json"


def load_digests(root: Path) -> dict[Path, tuple[Stamp, Digest]]:
    """Return the digests that were kept of a ledger; none where the file is missing, another's, or damaged.

    Args:
        root: Root of the ledger.
    """
    try:
        with cache_file(root).open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return {}
            head, _, content = file.read().partition(b"\n")
        if head != _head(content):
            return {}
        return {
            root / name: (Stamp(*stamp), Digest.from_data(digest))
            for name, (stamp, digest) in orjson.loads(content).items()
        }
    except (OSError, ValueError, TypeError, KeyError):
        return {}  # whatever is wrong with it, the journals say the same


def keep_digests(root: Path, digests: Digests) -> None:
    """Keep digests in place of those that were kept before.

    The file appears as a whole: concurrent readers see the old one or the new one. Where it can't be written, the next
    reader takes longer, and that is all.

    Args:
        root: Root of the ledger.
        digests: The digests; those of journals that somebody has just written to are left out.
    """
    now_ns, prefix = time.time_ns(), len(os.fspath(root / "_")) - 1
    content = orjson.dumps(
        {
            os.fspath(path)[prefix:]: [stamp, digest]
            for path, (stamp, digest) in digests.items()
            if now_ns - max(stamp.mtime_ns, stamp.ctime_ns) > SETTLED_NS
        },
        default=list,  # named tuples
    )
    target = cache_file(root)
    with contextlib.suppress(OSError):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".digests-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(_head(content) + b"\n" + content)
            os.replace(name, target)
        except OSError:
            os.unlink(name)
            raise


def _head(content: bytes) -> bytes:
    """Return the first line of a cache file: who wrote it, and that it is whole."""
    return _FORMAT + b" " + hashlib.sha256(content).hexdigest().encode()
