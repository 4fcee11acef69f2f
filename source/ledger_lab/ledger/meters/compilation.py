"""Measurement of the time that Warp and torch spend on compiling."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ledger_lab.ledger.meters.phases import Phase, PhaseClock

_LOADING = "Module "
"""Prefix of the name of the timer that Warp uses only around building and loading a module."""


@contextmanager
def metered_compilation(clock: PhaseClock) -> Iterator[None]:
    """Count Warp's module builds and loads, and its CUDA-graph captures, for the phase ``compile``.

    Warp runs both inside context managers of its own. This function replaces them by context managers that also open a
    phase window. Kernel launches are not affected.

    Args:
        clock: The clock; it counts only the calling thread.
    """
    import warp

    owner = threading.get_ident()

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

    timer, capture = warp.ScopedTimer, warp.ScopedCapture
    warp.ScopedTimer, warp.ScopedCapture = MeteredTimer, MeteredCapture
    try:
        yield
    finally:
        warp.ScopedTimer, warp.ScopedCapture = timer, capture


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
