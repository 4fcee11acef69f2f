"""Importing libraries that start collectives as soon as they see that they are one of several processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lone_import() -> Iterator[int]:
    """Hide the other processes of a distributed training from what is imported within the context.

    Yields:
        How many processes there are.
    """
    found = os.environ.pop("WORLD_SIZE", None)
    try:
        yield int(found or "1")
    finally:
        if found is not None:
            os.environ["WORLD_SIZE"] = found
