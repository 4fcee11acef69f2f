"""Run a benchmark: measure the sides of a claim in one call."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from ledger_lab.terminal.script import run_script

BENCHMARKS = {
    "evaluate": "cost of scoring 1, 4 and 16 checkpoints in one pass",
    "evaluators": "errors of common ways to evaluate a policy",
    "held_out": "judging inside the training simulation, or paused, or in a separate process",
    "kills": "durability of journals whose writers are killed at random times",
    "ledger": "speed of appending and reporting, compared with MLflow and Weights & Biases",
    "metering": "cost of metering, switched on and off within one training",
    "optimizers": "Adam's step time by loop, foreach and fused",
    "overhead": "cost of metering, compared with `isaaclab train`",
    "preemptions": "a training with many interruptions, compared with one without",
    "recipe": "effect of one changed recipe field on speed or time to target",
    "stock": "step times of our tasks, compared with Isaac Lab's tasks of the same robots",
    "time_to_target": "time to target with our recipe, compared with Isaac Lab's",
    "training_kills": "ledgers of trainings that are killed at random times",
    "verdict": "how often the rule behind a run's verdict errs, and how soon it passes a good policy",
}


_EXAMPLE = "\nexample:\n  ./isaaclab.sh -p -m benchmarks overhead --rl_library skrl --pairs 4"


def main(argv: Sequence[str]) -> int:
    """Dispatch to a benchmark."""
    parser = argparse.ArgumentParser(
        prog="benchmarks",
        description=__doc__,
        epilog="\n".join(["benchmarks:", *(f"  {name:16}{what}" for name, what in BENCHMARKS.items()), _EXAMPLE]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("benchmark", metavar="NAME", choices=BENCHMARKS, help="Benchmark from the list below.")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="Arguments of the benchmark; `NAME --help` lists them."
    )
    args = parser.parse_args(argv)
    module = importlib.import_module(f"benchmarks.{args.benchmark}")
    return getattr(module, f"bench_{args.benchmark}")(args.arguments)


if __name__ == "__main__":
    run_script(main)
