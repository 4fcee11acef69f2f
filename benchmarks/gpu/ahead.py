"""A training on a CPU that also compiles its kernels for a GPU, on a machine without one.

Warp names the folder of a module by the code and the options of its kernels, and not by the device. So a process on a
GPU finds what this process has compiled. It compiles the rest by itself: kernels that only exist on a GPU.

``python -m benchmarks.gpu.ahead ARCHITECTURE FILE ARGUMENTS...`` trains with the arguments of ``train.py``, and writes
the compiled modules to FILE.
"""

from __future__ import annotations

import json
import pkgutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import warp

from ledger_lab.training.runners.recorded_calls import replaced
from ledger_lab.training.supervision.attempt import Link
from ledger_lab.training.supervision.start import run_supervised

_ON_A_GPU = (32, 128)
"""Threads per block on a GPU, of kernels for which Newton asks for one thread on a CPU (its ``NarrowPhase``)."""


class Ahead:
    """Compiles for a GPU each module that Warp loads for the CPU."""

    def __init__(self, architecture: int) -> None:
        """Compile nothing yet.

        Args:
            architecture: Compute capability of the GPU without its dot, like 90.
        """
        self._architecture = architecture
        self._asked = threading.local()
        self.compiled_s: dict[str, float] = {}
        """Seconds per module and number of threads per block; about 0 for a module that was in the cache."""

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Also compile for the GPU, inside the context."""
        warp.init()
        context: Any = pkgutil.resolve_name("warp._src.context")
        module: Any = context.Module
        load = module.load

        def loaded(self: Any, device: Any = None, block_dim: int | None = None, *rest: Any, **more: Any) -> Any:  # noqa: ANN401 - passes through
            executable = load(self, device, block_dim, *rest, **more)
            ahead.compile(self)
            return executable

        ahead = self
        with ExitStack() as stack:
            stack.enter_context(replaced(module, load=loaded))
            for name in ("launch", "launch_tiled"):
                launch = self._noting(getattr(context, name))
                for owner in (context, warp):
                    stack.enter_context(replaced(owner, **{name: launch}))
            yield

    def compile(self, module: Any) -> None:  # noqa: ANN401 - a private class of Warp
        """Compile a module as a GPU would load it, unless it is in the cache.

        PTX is what Warp compiles for all drivers that are not older than its own toolkit.

        Args:
            module: The module.
        """
        asked = getattr(self._asked, "block_dim", None) or module.options["block_dim"]
        for block_dim in _ON_A_GPU if asked == 1 else (asked,):
            key = f"{module.get_module_identifier(block_dim)}, blocks of {block_dim}"
            if key in self.compiled_s:
                continue
            began_s = time.monotonic()
            options = module.resolve_options(warp.config, block_dim=block_dim)
            module._compile(None, output_arch=self._architecture, use_ptx=True, options=options)
            self.compiled_s[key] = round(time.monotonic() - began_s, 2)

    def _noting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a launch that notes the number of threads per block that it is asked for; on a CPU, Warp takes one."""

        def launch(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
            if getattr(self._asked, "inside", False):  # launch_tiled calls launch
                return function(*args, **kwargs)
            self._asked.inside, self._asked.block_dim = True, kwargs.get("block_dim")
            try:
                return function(*args, **kwargs)
            finally:
                self._asked.inside, self._asked.block_dim = False, None

        return launch


def main(argv: Sequence[str], started_ns: int, link: Link) -> None:
    """Train, and write what was compiled.

    Args:
        argv: Architecture, file to write, then the arguments of ``train.py``.
        started_ns: When the process began.
        link: Connection to the supervisor.
    """
    from ledger_lab.training.run import train_run

    ahead = Ahead(int(argv[0]))
    try:
        with ahead.compiling():
            train_run(argv[2:], started_ns, link)
    finally:
        Path(argv[1]).write_text(json.dumps(ahead.compiled_s, indent=2), encoding="utf-8")


if __name__ == "__main__":
    run_supervised(main)
