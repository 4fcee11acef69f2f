"""``python -m benchmarks gpu``: everything to measure on a GPU, in one call of at most nine minutes."""

from benchmarks.gpu.kit import bench_gpu

__all__ = ["bench_gpu"]
