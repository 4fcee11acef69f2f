"""Usable cores, work on all of them, and pauses of garbage collection."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from typing import Any

from ledger_lab.ledger.control_groups import cpu_quota

_inherited: tuple[Callable[[Any], Any], Sequence[Any]] | None = None
"""Function and items, in a process of a pool."""


_GPU_FILES = ("/dev/nvidia", "/dev/dxg")
"""How the device files of NVIDIA's drivers begin, on Linux and in WSL."""


def usable_cores() -> int:
    """Return how many threads of this process can compute at a time: its cores, or the limit of its control group.

    A limit that is not a whole number is rounded down, because the last thread would often wait, and others for it.
    """
    cores, quota = len(os.sched_getaffinity(0)), cpu_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


def own_cores() -> int:
    """Return how many cores this process may use: the usable ones, shared among the ranks of the machine."""
    return max(1, usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def map_on_cores[T, R](function: Callable[[T], R], items: Sequence[T], *, parallel: bool = True) -> Iterator[R]:
    """Yield the results of a function for items, in order.

    Processes of a pool inherit the function and the items, so only results are sent between processes. The function
    must not use anything else that they inherit.

    Args:
        function: The function.
        items: The items.
        parallel: Whether to use a pool. A process with threads never does, because a fork would inherit their locks. A
            process that uses a GPU never does, because CUDA does not work after a fork, and its threads have locks,
            too.
    """
    workers = min(usable_cores(), len(items))
    if not parallel or workers < 2 or threading.active_count() > 1 or _uses_gpu():
        yield from map(function, items)
        return
    with ProcessPoolExecutor(workers, get_context("fork"), initializer=_inherit, initargs=(function, items)) as pool:
        yield from pool.map(_apply, range(len(items)))


def _uses_gpu() -> bool:
    """Tell whether any library of this process has opened a GPU: the driver then keeps a device file open."""
    try:
        opened = os.listdir("/proc/self/fd")
    except OSError:  # without /proc, assume that it has
        return True
    for number in opened:
        with suppress(OSError):  # the descriptor of the listing is closed by now
            if os.readlink(f"/proc/self/fd/{number}").startswith(_GPU_FILES):
                return True
    return False


def _inherit(function: Callable[[Any], Any], items: Sequence[Any]) -> None:
    """Store the inherited function and items in a process of a pool."""
    global _inherited
    gc.freeze()  # garbage collection would copy all inherited memory
    _inherited = function, items


def _apply(index: int) -> Any:
    """Apply the function to an item, in a process of a pool."""
    assert _inherited is not None
    function, items = _inherited
    return function(items[index])


@contextmanager
def no_collection() -> Iterator[None]:
    """Pause garbage collection: the objects of a ledger are kept anyway, and there are millions of them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def imports() -> Iterator[None]:
    """Pause garbage collection during imports, and leave out of later collections what exists then.

    Torch, Warp and Isaac Lab make a million objects, which stay until the process ends. Collections that look at them
    take 2 s of the start of a training, and 0.4 s of its end.
    """
    gc.collect()  # frees unused objects, which the freeze would keep
    with no_collection():
        yield
        gc.freeze()
