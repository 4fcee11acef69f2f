"""Changes what no held-out episode may depend on: step counters, clocks, the process, hashes, global random streams."""

from __future__ import annotations

import builtins
import datetime
import functools
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ledger_lab.panels.streams import GlobalStreams

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

COUNTERS = ("common_step_counter", "_sim_step_counter")
"""Attributes of the environment that count its steps since the training began."""

_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
"""Functions of Python's module ``time`` that read a clock."""

_LATER = 1_000_003
"""How far clocks [s] and step counters are ahead in other surroundings."""


class _Later(datetime.datetime):
    """A clock's date and time, some days ahead."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
        """Return what the clock will show."""
        return datetime.datetime.now(tz) + datetime.timedelta(seconds=_LATER)

    @classmethod
    def today(cls) -> datetime.datetime:  # type: ignore[override]
        """Return what the clock will show."""
        return cls.now()


@contextmanager
def other_surroundings(base: ManagerBasedRLEnv, modules: Collection[str] = ()) -> Iterator[None]:
    """Within the context, change step counters, clocks, process id, hashes, numbers of threads and random streams.

    Functions of the standard library are replaced for the calling thread, and where the modules refer to them.

    Args:
        base: The environment, unwrapped.
        modules: Names of the modules of the task's terms.
    """
    later = {name: _ahead(getattr(time, name), name) for name in _CLOCKS}
    others: dict[Any, Any] = {getattr(time, name): clock for name, clock in later.items()}
    others |= {os.getpid: lambda: os.getpid() + _LATER, datetime.datetime: _Later}
    others |= {os.cpu_count: lambda: 97, torch.get_num_threads: lambda: 97}
    with ExitStack() as undo:
        undo.callback(GlobalStreams().restore)
        torch.manual_seed(random.getrandbits(32))
        np.random.seed(random.getrandbits(32))
        random.seed(random.getrandbits(32))
        for name in COUNTERS:
            undo.callback(setattr, base, name, getattr(base, name))
            setattr(base, name, getattr(base, name) + _LATER)
        for name, clock in later.items():
            undo.callback(setattr, time, name, getattr(time, name))
            setattr(time, name, clock)
        for name in modules:
            names = vars(sys.modules[name])
            undo.callback(names.pop, "hash", None) if "hash" not in names else None
            changed = {key: _other(value, others) for key, value in names.items()}
            for key, value in changed.items():
                if value is not names[key]:
                    undo.callback(names.__setitem__, key, names[key])
                    names[key] = value
            names.setdefault("hash", lambda value: builtins.hash((_LATER, value)))
        yield


def _other(value: Any, others: dict[Any, Any]) -> Any:
    """Return what stands for a function, or for a module that contains such functions; else the value itself."""
    if isinstance(value, ModuleType) and value.__name__ in ("time", "datetime", "os", "torch"):
        known = {name: each for name, each in vars(value).items() if _hashable(each) and each in others}
        return _Proxy(value, {name: others[each] for name, each in known.items()})
    return others.get(value, value) if callable(value) and _hashable(value) else value


class _Proxy(SimpleNamespace):
    """A module in which some functions are others."""

    def __init__(self, module: ModuleType, others: dict[str, Any]) -> None:
        """Stand for a module.

        Args:
            module: The module.
            others: What replaces its functions, by their names.
        """
        super().__init__(**others)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        """Return what the module has."""
        return getattr(self._module, name)


def _hashable(value: Any) -> bool:
    """Tell whether a value can be looked up."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _ahead(read: Callable[[], float], name: str) -> Callable[[], float]:
    """Return a clock that is ahead for the calling thread."""
    caller, by = threading.get_ident(), _LATER * (10**9 if name.endswith("_ns") else 1)
    return functools.partial(_read, read, caller, by)


def _read(read: Callable[[], float], caller: int, by: int) -> float:
    """Return what a clock shows, or will show later for one thread."""
    return read() + (by if threading.get_ident() == caller else 0)
