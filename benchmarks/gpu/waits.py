"""A training that counts how often the host waits for the GPU, by the place in the code.

Torch warns about each operation that waits (``torch.cuda.set_sync_debug_mode``), but not about explicit waits for
devices, streams and events. Those, and all waits of Warp, are counted where Python calls the libraries.
"""

from __future__ import annotations

import json
import pkgutil
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
import warp

from benchmarks.comparison import ROOT
from ledger_lab.training.runners.recorded_calls import replaced
from ledger_lab.training.supervision.attempt import Link
from ledger_lab.training.supervision.start import run_supervised

_WARNING = "called a synchronizing CUDA operation"
"""Text of torch's warning."""
_OF_TORCH = ((torch.cuda, "synchronize"), (torch.cuda.Event, "synchronize"), (torch.cuda.Stream, "synchronize"))
_OF_WARP = (
    "wp_cuda_context_synchronize",
    "wp_cuda_stream_synchronize",
    "wp_cuda_event_synchronize",
    "wp_memcpy_d2h",
)
"""Functions of Warp's native library that wait. A copy to host memory always counts, although it does not wait if that
memory is pinned."""
_LIBRARIES = ("/torch/", "/warp/", "/warnings.py", "/contextlib.py")
"""Parts of the paths of files that are not named as the place of a wait."""


class Waits:
    """Counts the waits of the calling process while it is switched on."""

    def __init__(self, device: str) -> None:
        """Count nothing yet.

        Args:
            device: Device of the training; CUDA is asked for warnings only if the training uses it.
        """
        self._warned = device != "cpu" and torch.cuda.is_available()
        self.counts: Counter[str] = Counter()
        """Waits by kind and place, like ``torch operation at panels/slots.py:148``."""
        self.on = False
        self._owner = threading.get_ident()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Replace the functions that wait, inside the context."""
        with ExitStack() as stack:
            for owner, name in _OF_TORCH:
                wrapped = self._counting(getattr(owner, name), f"torch {owner.__name__}.{name}")
                stack.enter_context(replaced(owner, **{name: wrapped}))
            warp.init()
            core: Any = pkgutil.resolve_name("warp._src.context:runtime").core
            for name in _OF_WARP:
                stack.enter_context(replaced(core, **{name: self._counting(getattr(core, name), f"warp {name}")}))
            show = warnings.showwarning

            def shown(message: Warning | str, *details: Any, **more: Any) -> None:  # noqa: ANN401 - passes through
                if _WARNING in str(message):
                    self.note("torch operation")
                else:
                    show(message, *details, **more)

            stack.enter_context(replaced(warnings, showwarning=shown))
            yield

    def switch(self, on: bool) -> None:
        """Begin or end to count.

        Args:
            on: Whether to count from now on.
        """
        if on:
            warnings.filterwarnings("always", message=f".*{_WARNING}")
        if self._warned:
            torch.cuda.set_sync_debug_mode("warn" if on else "default")
        self.on = on

    def note(self, kind: str) -> None:
        """Count one wait at the place that called it.

        Args:
            kind: What waits.
        """
        if self.on and threading.get_ident() == self._owner:
            self.counts[f"{kind} at {_place()}"] += 1

    def _counting(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        """Return a function that is counted."""

        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
            self.note(kind)
            return function(*args, **kwargs)

        return call


def _place() -> str:
    """Return file and line of the innermost caller that is neither torch, Warp nor this module."""
    frame = sys._getframe()
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if file != __file__ and not any(part in file for part in _LIBRARIES):
            path = Path(file)
            return f"{_shown(path)}:{frame.f_lineno}"
        frame = frame.f_back
    return "unknown place"


def _shown(path: Path) -> Path:
    """Return a path below the source tree, or below the folder of installed packages."""
    if path.is_relative_to(ROOT):
        return path.relative_to(ROOT)
    parts = path.parts
    return Path(*parts[parts.index("site-packages") + 1 :]) if "site-packages" in parts else Path(*parts[-3:])


def _folder(place: str) -> str:
    """Return the package of a place; of LedgerLab's own code, also the package in it."""
    parts = place.removeprefix("source/").split("/")
    return "/".join(parts[:2]) if parts[0] == "ledger_lab" else parts[0]


def main(argv: Sequence[str], started_ns: int, link: Link) -> None:
    """Train, and write the waits per environment step.

    Args:
        argv: File to write, iterations to leave out, then the arguments of ``train.py``.
        started_ns: When the process began.
        link: Connection to the supervisor.
    """
    from ledger_lab.training.loop import TrainingLoop
    from ledger_lab.training.run import train_run

    path, skip = Path(argv[0]), int(argv[1])
    waits = Waits(argv[argv.index("--device") + 1])

    class CountedLoop(TrainingLoop):
        """A training loop that counts after the first iterations."""

        def on_iteration(self, iterations: int, figures: Mapping[str, float]) -> bool:
            """Write the counts of the iterations so far."""
            go_on = super().on_iteration(iterations, figures)
            counted = iterations - skip
            if counted == 0:
                waits.switch(True)
            elif counted > 0:
                steps = counted * self._plan.batch.horizon
                path.write_text(json.dumps(per_step(waits.counts, steps), indent=2), encoding="utf-8")
            return go_on

    with waits.counted():
        train_run(argv[2:], started_ns, link, loop=CountedLoop)


def per_step(counts: Mapping[str, int], steps: int) -> dict[str, Any]:
    """Return the waits per environment step, the most frequent first; those of the learner are spread over its batch.

    Args:
        counts: Waits by kind and place.
        steps: Environment steps during which they were counted.

    Returns:
        Waits per step: in all, by the folder of the code that waits, and by its line. Also whether torch uses CUDA.
    """
    folders: Counter[str] = Counter()
    for name, count in counts.items():
        folders[_folder(name.rpartition(" at ")[2])] += count
    return {
        "torch_uses_cuda": torch.cuda.is_initialized(),
        "env_steps": steps,
        "waits_per_step": sum(counts.values()) / steps,
        "waits_per_step_by_folder": {name: count / steps for name, count in folders.most_common()},
        "places": {name: count / steps for name, count in sorted(counts.items(), key=lambda each: -each[1])},
    }


if __name__ == "__main__":
    run_supervised(main)
