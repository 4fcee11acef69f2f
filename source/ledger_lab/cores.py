"""Work on all cores, and none on garbage, for what takes long in pure Python."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

_inherited: tuple[Callable[[Any], Any], Sequence[Any]] | None = None
"""In a process of a pool: what it does, and to what."""


def map_on_cores[T, R](function: Callable[[T], R], items: Sequence[T], *, parallel: bool = True) -> Iterator[R]:
    """Yield what a function makes of items, in their order.

    Processes of a pool inherit function and items, so that only results are sent from one to another. The function must
    touch nothing else of what they inherit.

    Args:
        function: The function.
        items: The items.
        parallel: Whether it is worth a pool. A process with threads makes none: a fork would inherit their locks.
    """
    workers = min(len(os.sched_getaffinity(0)), len(items))
    if not parallel or workers < 2 or threading.active_count() > 1:
        yield from map(function, items)
        return
    with ProcessPoolExecutor(workers, get_context("fork"), initializer=_inherit, initargs=(function, items)) as pool:
        yield from pool.map(_apply, range(len(items)))


def _inherit(function: Callable[[Any], Any], items: Sequence[Any]) -> None:
    """Keep what a process of a pool has inherited."""
    global _inherited
    gc.freeze()  # a search for garbage in it would copy all of it
    _inherited = function, items


def _apply(index: int) -> Any:
    """Apply the function to an item, in a process of a pool."""
    assert _inherited is not None
    function, items = _inherited
    return function(items[index])


@contextmanager
def no_collection() -> Iterator[None]:
    """Let nobody search for garbage: what is made of a ledger stays, and there are millions of objects to search."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
