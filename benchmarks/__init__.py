"""Benchmarks that measure claims about LedgerLab. Run a benchmark with ``python -m benchmarks NAME``."""
