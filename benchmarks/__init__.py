"""Benchmarks: claims about LedgerLab, measured. Run one with ``python -m benchmarks NAME``."""
