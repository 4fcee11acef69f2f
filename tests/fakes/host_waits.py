"""Operations for which the host would wait for a GPU, counted on the CPU."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ledger_lab.training.runners.recorded_calls import replaced

TORCH = str(Path(torch.__file__).parent)
READ_BY_HOST = ("_local_scalar_dense", "nonzero", "is_nonzero", "item", "masked_select")
CHECKED_BY_HOST = {torch.linalg.solve: "solve", torch.multinomial: "multinomial"}


class _Results(TorchDispatchMode):
    """Notes operations whose result the host needs."""

    def __init__(self, notes: _Notes) -> None:
        super().__init__()
        self._notes = notes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in READ_BY_HOST:
            self._notes.add(name)
        if name in ("index", "index_put", "index_put_") and any(
            each is not None and each.dtype == torch.bool for each in args[1]
        ):
            self._notes.add(f"{name} by a mask")
        return func(*args, **(kwargs or {}))


class _Arguments(TorchFunctionMode):
    """Notes operations that copy an argument of the host to the GPU, and those that check their input on the host."""

    def __init__(self, notes: _Notes) -> None:
        super().__init__()
        self._notes = notes

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(each, list | np.ndarray) for each in index):
                self._notes.add("index of the host")
            gathers = any(isinstance(each, torch.Tensor) for each in index)
            if len(args) == 3 and gathers and not isinstance(args[2], torch.Tensor):
                self._notes.add("number of the host")
        elif func in CHECKED_BY_HOST:
            self._notes.add(CHECKED_BY_HOST[func])
        return func(*args, **(kwargs or {}))


class _Notes:
    """What was noted, by operation and line, if a module of a package called it directly."""

    def __init__(self, package: ModuleType) -> None:
        assert package.__file__ is not None
        self._package = str(Path(package.__file__).parent)
        self.found: Counter[str] = Counter()

    def add(self, what: str) -> None:
        """Count an operation."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith((TORCH, __file__)):
            frame = frame.f_back
        if frame.f_code.co_filename.startswith(self._package):
            self.found[f"{what} in {Path(frame.f_code.co_filename).name}:{frame.f_lineno}"] += 1


@contextmanager
def host_waits(package: ModuleType) -> Iterator[Counter[str]]:
    """Count the operations of a package for which the host would wait for a GPU.

    Args:
        package: The package; what other packages do is not counted.

    Yields:
        The number of each operation, by its name and line.
    """
    notes = _Notes(package)

    def noted(name: str) -> Any:
        plain = getattr(torch.Tensor, name)

        def call(tensor: torch.Tensor, *args: Any) -> Any:
            notes.add(name)
            return plain(tensor, *args)

        return call

    with (
        replaced(torch.Tensor, **{name: noted(name) for name in ("cpu", "tolist")}),
        _Results(notes),
        _Arguments(notes),
    ):
        yield notes.found
