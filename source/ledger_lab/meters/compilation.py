"""Finding the time that Warp and torch spend on compiling."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ledger_lab.meters.phases import Phase, PhaseClock

_LOADING = "Module "
"""How the name of the timer begins that Warp sets around building and loading a module, and around nothing else."""


@contextmanager
def metered_compilation(clock: PhaseClock) -> Iterator[None]:
    """Count Warp's module builds and loads, and its CUDA-graph captures, for the phase ``compile``.

    Warp announces both with context managers of its own, which are replaced by ones that open a phase window, too.
    Nothing is added to a kernel launch.

    Args:
        clock: The clock; only what happens in the calling thread is counted.
    """
    import warp

    owner = threading.get_ident()

    class MeteredTimer(warp.ScopedTimer):
        """Warp's timer, which opens a window when it times the loading of a module."""

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
                clock.close()  # a capture that can't begin is not exited
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
    """Count what ``torch.compile`` does, when it does it, for the phase ``compile``.

    Torch compiles a function inside its first call, and its gradient inside the first one of that, perhaps in a thread
    of autograd; then the calling thread waits.

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
