"""Imports libraries that would start collectives on import in one of several processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lone_import() -> Iterator[int]:
    """Hide the other processes of a distributed training from modules that are imported inside the context.

    Yields:
        Number of processes.
    """
    found = os.environ.pop("WORLD_SIZE", None)
    try:
        yield int(found or "1")
    finally:
        if found is not None:
            os.environ["WORLD_SIZE"] = found
