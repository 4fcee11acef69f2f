"""Benchmarks: what is compared side by side in one call."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from ledger_lab.terminal.script import run_script

BENCHMARKS = {
    "evaluate": "1, 4 and 16 checkpoints scored in one pass",
    "evaluators": "common ways to evaluate a policy against each seed once",
    "held_out": "judging inside the training simulation against pausing and processes",
    "kills": "writers of journals that are killed at random moments",
    "ledger": "appending and reporting, beside MLflow and Weights & Biases",
    "metering": "what the meters take, switched on and off within one training",
    "optimizers": "Adam by loop, foreach and fused",
    "overhead": "metered training against `isaaclab train`",
    "preemptions": "one training that is interrupted again and again, against one that is not",
    "recipe": "what changing a field of the recipe does to speed and time to target",
    "stock": "the steps of our tasks against those of Isaac Lab's tasks of the same robots",
    "time_to_target": "our recipe against the stock one",
    "training_kills": "real trainings that are killed at random moments",
    "verdict": "how often the rule of a run's verdict errs, and how soon it passes a good policy",
}


def main(argv: Sequence[str]) -> int:
    """Dispatch to a benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="\n".join(["benchmarks:", *(f"  {name:16}{what}" for name, what in BENCHMARKS.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("benchmark", metavar="NAME", choices=BENCHMARKS, help="Benchmark, one of those below.")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="Arguments of the benchmark; --help explains them.")
    args = parser.parse_args(argv)
    module = importlib.import_module(f"benchmarks.{args.benchmark}")
    return getattr(module, f"bench_{args.benchmark}")(args.arguments)


if __name__ == "__main__":
    run_script(main)
