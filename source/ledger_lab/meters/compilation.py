"""Finding the time that Warp spends on compiling."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ledger_lab.meters.phases import Phase, PhaseClock


@contextmanager
def metered_compilation(clock: PhaseClock) -> Iterator[None]:
    """Count Warp's module builds and loads, and its CUDA-graph captures, for the phase ``compile``.

    Warp asks for a module before every launch; only a call that really loaded something is counted.

    Args:
        clock: The clock.
    """
    import warp
    from warp._src.context import Module

    load, begin, end = Module.load, warp.ScopedCapture.__enter__, warp.ScopedCapture.__exit__

    @functools.wraps(load)
    def metered_load(module: Module, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
        loaded, began_ns = len(module.execs), time.perf_counter_ns()
        try:
            return load(module, *args, **kwargs)
        finally:
            if len(module.execs) != loaded:
                clock.reassign(Phase.COMPILE, time.perf_counter_ns() - began_ns)

    @functools.wraps(begin)
    def metered_begin(capture: Any) -> Any:  # noqa: ANN401 - passes through
        clock.open(Phase.COMPILE)
        return begin(capture)

    @functools.wraps(end)
    def metered_end(capture: Any, *args: Any) -> Any:  # noqa: ANN401 - passes through
        try:
            return end(capture, *args)
        finally:
            clock.close()

    Module.load, warp.ScopedCapture.__enter__, warp.ScopedCapture.__exit__ = metered_load, metered_begin, metered_end
    try:
        yield
    finally:
        Module.load, warp.ScopedCapture.__enter__, warp.ScopedCapture.__exit__ = load, begin, end
