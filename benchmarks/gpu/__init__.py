"""``python -m benchmarks gpu``: everything to measure on a GPU, in one call of at most nine minutes."""

from __future__ import annotations

from collections.abc import Sequence


def bench_gpu(argv: Sequence[str]) -> int:
    """Run the GPU kit; see :func:`benchmarks.gpu.kit.run_kit`.

    Args:
        argv: Command line without the program's name.
    """
    from benchmarks.gpu.kit import run_kit  # the parts are modules of this package, too, and need less

    return run_kit(argv)
