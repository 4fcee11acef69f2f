"""Benchmarks: ratios that are measured side by side in one call."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ledger_lab.pipeline.script import run_script


def main(argv: Sequence[str]) -> int:
    """Dispatch to a benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmark", choices=("overhead",), help="overhead: metered training against `isaaclab train`.")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="Arguments of the benchmark; --help explains them.")
    args = parser.parse_args(argv)
    from ledger_lab.pipeline.bench_overhead import bench_overhead

    return bench_overhead(args.arguments)


if __name__ == "__main__":
    run_script(main)
