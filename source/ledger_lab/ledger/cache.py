"""Cache of the digests of journals. A digest is used only if its journal has not changed since it was read.

A journal is unchanged if its inode, size, modification time and change time are the same as when every line was
verified. No program can set the change time. The cache holds sums and positions of rows. The rows themselves are read
from the journal, and their hashes are verified each time. ``scripts/verify_ledger.py`` does not use the cache. There is
one JSON file per ledger root in ``$XDG_CACHE_HOME/ledger_lab`` (by default ``~/.cache/ledger_lab``), outside of any
ledger. It may be deleted at any time.
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
"""Minimum age of a journal's last change before its digest is cached [ns]. Within one tick of the file system's clock,
two changes can have the same time."""

_FORMAT = f"ledger_lab digests 3 of rows {VERSION}".encode()
"""Version of the format; raise it whenever the meaning of a digest changes."""

Digests = Mapping[Path, tuple[Stamp, Digest]]
"""Digests, each with the stamp that its journal had when it was read."""


def cache_file(root: Path) -> Path:
    """Return the path of the cache file of a ledger.

    Args:
        root: Root of the ledger.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "ledger_lab" / f"digests-{hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:32]}.json"


def load_digests(root: Path) -> dict[Path, tuple[Stamp, Digest]]:
    """Return the cached digests of a ledger; none if the file is missing, damaged, or that of another ledger.

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
        return {}  # the journals still hold everything


def keep_digests(root: Path, digests: Digests) -> None:
    """Replace the cached digests of a ledger.

    The file is replaced as a whole: concurrent readers see the old file or the new file. If it can't be written, the
    next reader only takes longer.

    Args:
        root: Root of the ledger.
        digests: The digests. Digests of journals that have just changed are not kept.
    """
    now_ns, prefix = time.time_ns(), len(os.fspath(root / "_")) - 1
    content = orjson.dumps(
        {
            os.fspath(path)[prefix:]: [stamp, digest]
            for path, (stamp, digest) in digests.items()
            if now_ns - max(stamp.mtime_ns, stamp.ctime_ns) > SETTLED_NS and _is_utf8(os.fspath(path))
        },
        default=list,  # named tuples
    )
    if not (target := cache_file(root)).is_absolute():
        return  # nobody's home is known
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


def _is_utf8(text: str) -> bool:
    """Tell whether a path is UTF-8, as JSON must be; journals with other paths are read again each time."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _head(content: bytes) -> bytes:
    """Return the first line of a cache file: its format, and a checksum of the rest."""
    return _FORMAT + b" " + hashlib.sha256(content).hexdigest().encode()
