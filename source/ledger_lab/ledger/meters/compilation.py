"""Measurement of the time that Warp and torch spend on compiling."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ledger_lab.ledger.meters.phases import Phase, PhaseClock

_LOADING = "Module "
"""Prefix of the name of the timer that Warp uses only around building and loading a module."""


@dataclass
class Built:
    """Kernels that Warp has compiled, because no cache had them."""

    time_ns: int = 0
    """Time for which the calling thread has compiled [ns]; a part of the phase ``compile``."""


@contextmanager
def metered_compilation(clock: PhaseClock, on_build: Callable[[], None] = lambda: None) -> Iterator[Built]:
    """Count Warp's module builds and loads, and its CUDA-graph captures, for the phase ``compile``.

    Warp runs both inside context managers of its own. This function replaces them by context managers that also open a
    phase window. Kernel launches are not affected.

    Args:
        clock: The clock; it counts only the calling thread.
        on_build: Called before the first kernels are compiled; loading compiled kernels does not count.

    Yields:
        How long kernels have been compiled.
    """
    import warp
    from warp._src import build as builder

    owner, built = threading.get_ident(), Built()

    def metered(build: Callable[..., Any]) -> Callable[..., Any]:
        def build_and_count(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
            if threading.get_ident() != owner:
                return build(*args, **kwargs)
            if not built.time_ns:
                on_build()
            began_ns = time.perf_counter_ns()
            try:
                return build(*args, **kwargs)
            finally:
                built.time_ns += time.perf_counter_ns() - began_ns

        return build_and_count

    class MeteredTimer(warp.ScopedTimer):
        """Warp's timer, extended: it opens a window while it times the loading of a module."""

        def __enter__(self) -> Any:  # noqa: ANN401 - Warp's own type
            self.counts = self.name.startswith(_LOADING) and threading.get_ident() == owner
            if self.counts:
                clock.open(Phase.COMPILE)
            return super().__enter__()

        def __exit__(self, *error: Any) -> None:  # noqa: ANN401 - passes through
            try:
                super().__exit__(*error)
            finally:
                if self.counts:
                    clock.close()

    class MeteredCapture(warp.ScopedCapture):
        """Warp's capture of a CUDA graph, inside a window."""

        def __enter__(self) -> Any:  # noqa: ANN401 - Warp's own type
            clock.open(Phase.COMPILE)
            try:
                return super().__enter__()
            except BaseException:
                clock.close()  # a capture that fails to start is not exited
                raise

        def __exit__(self, *error: Any) -> Any:  # noqa: ANN401 - passes through
            try:
                return super().__exit__(*error)
            finally:
                clock.close()

    originals = [(warp, "ScopedTimer", warp.ScopedTimer), (warp, "ScopedCapture", warp.ScopedCapture)]
    originals += [(builder, name, getattr(builder, name)) for name in ("build_cpu", "build_cuda")]
    warp.ScopedTimer, warp.ScopedCapture = MeteredTimer, MeteredCapture
    builder.build_cpu, builder.build_cuda = metered(builder.build_cpu), metered(builder.build_cuda)
    try:
        yield built
    finally:
        for module, name, original in originals:
            setattr(module, name, original)


@contextmanager
def metered_torch_compilation(clock: PhaseClock) -> Iterator[None]:
    """Count the compilation by ``torch.compile`` for the phase ``compile``.

    Torch compiles a function during its first call, and its gradient during the first backward pass, perhaps in a
    thread of autograd while the calling thread waits.

    Args:
        clock: The clock.
    """
    from torch._dynamo.callback import callback_handler

    def opened(_: object) -> None:
        clock.open(Phase.COMPILE)

    def closed(_: object) -> None:
        clock.close()

    callback_handler.register_start_callback(opened)
    callback_handler.register_end_callback(closed)
    try:
        yield
    finally:
        callback_handler.remove_start_callback(opened)
        callback_handler.remove_end_callback(closed)
