"""Changes what no held-out episode may depend on: step counters, clocks, the process, hashes, global random streams."""

from __future__ import annotations

import builtins
import datetime
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ledger_lab.panels.hooks import COUNTERS, replace_until
from ledger_lab.panels.streams import GlobalStreams

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_LATER = 1_000_003
"""How far clocks [s] and step counters are ahead in other surroundings."""

_AHEAD = ContextVar("_AHEAD", default=False)
"""Whether clocks and the process id are others for this thread: LedgerLab's own threads go on measuring."""


class _Later(datetime.datetime):
    """A clock's date and time, some days ahead."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
        """Return what the clock will show."""
        return datetime.datetime.now(tz) + datetime.timedelta(seconds=_LATER)


def _ahead(read: Callable[[], float], by: int = _LATER) -> Callable[[], float]:
    """Return what reads a clock or a process id, and adds a constant in other surroundings."""
    return lambda: read() + (by if _AHEAD.get() else 0)


_CLOCKS = (time.time, time.monotonic, time.perf_counter)
_CLOCKS_NS = (time.time_ns, time.monotonic_ns, time.perf_counter_ns)
_OTHERS: dict[int, Any] = {
    **{id(read): _ahead(read) for read in (*_CLOCKS, os.getpid)},
    **{id(read): _ahead(read, _LATER * 10**9) for read in _CLOCKS_NS},
    **{id(read): lambda: 97 for read in (os.cpu_count, torch.get_num_threads)},
    id(builtins.hash): lambda value: builtins.hash((_LATER, value)),
    id(datetime.datetime): _Later,
}
"""What stands for functions and classes, by their ids."""


class _OtherModule:
    """A module in which some functions are others."""

    def __init__(self, module: ModuleType) -> None:
        """Stand for a module."""
        self._module = module

    def __getattr__(self, name: str) -> Any:
        """Return what the module has, or what stands for it."""
        value = getattr(self._module, name)
        return _OTHERS.get(id(value), value)


@contextmanager
def other_surroundings(base: ManagerBasedRLEnv, modules: Iterable[ModuleType] = ()) -> Iterator[None]:
    """Within the context, change step counters, clocks, process id, hashes, numbers of threads and random streams.

    Clocks are others for the whole calling thread; other functions are replaced where the modules refer to them.

    Args:
        base: The environment, unwrapped.
        modules: The modules of the task's terms.
    """
    with ExitStack() as undo:
        undo.callback(GlobalStreams().restore)
        torch.manual_seed(random.getrandbits(32))
        np.random.seed(random.getrandbits(32))
        random.seed(random.getrandbits(32))
        for name in COUNTERS:
            replace_until(undo, base, name, getattr(base, name) + _LATER)
        undo.callback(_AHEAD.reset, _AHEAD.set(True))
        for clock in (*_CLOCKS, *_CLOCKS_NS):
            replace_until(undo, time, clock.__name__, _OTHERS[id(clock)])
        for module in modules:
            for name, value in {"hash": builtins.hash, **vars(module)}.items():
                if isinstance(value, ModuleType) and value in (datetime, os, time, torch):
                    replace_until(undo, module, name, _OtherModule(value))
                elif id(value) in _OTHERS:
                    replace_until(undo, module, name, _OTHERS[id(value)])
        yield
