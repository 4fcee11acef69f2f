"""Run a benchmark, which measures or checks a claim about LedgerLab."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from ledger_lab.reports.terminal.script import run_script

BENCHMARKS = {
    "across_tasks": "how often intervals of figures over several tasks hold the true figures",
    "cost_interval": "how often the interval of the cost per target-reaching checkpoint holds the true cost",
    "coverage": "how often each interval and each claim that LedgerLab prints is wrong",
    "engines": "success of policies under MuJoCo's C code, compared with MuJoCo-Warp",
    "error_budget": "how often chains of runs, and proofs of chosen sizes, prove a policy below the target",
    "evaluate": "time to score several checkpoints, compared with one",
    "evaluators": "how far common evaluation methods over- or underestimate the success rate",
    "gpu": "everything that is to be measured on a GPU, in one call of nine minutes",
    "ground": "success on held-out ground, compared with the ground of the training",
    "held_out": "time to score policies inside the training simulation, in pauses, or in a separate process",
    "kernels": "compiles the kernels of tasks for a GPU, on a machine without one",
    "kills": "check that a journal keeps its rows when its writer is killed",
    "ledger": "speed of appending and reading rows, compared with MLflow and Weights & Biases",
    "load": "check that a ledger stays right while many processes write it and some of them are killed",
    "log_rank": "how often the log-rank test finds a difference between equal cohorts",
    "metering": "time that metering adds, measured within one training",
    "native": "environment steps by MuJoCo's C code on all cores, compared with MuJoCo-Warp",
    "overhead": "speed of train.py, compared with `isaaclab train`",
    "preemptions": "check that a training with many interruptions gives the right results",
    "recommend": "how often `report.py recommend` chooses the best machine, and its intervals hold the true figures",
    "regress": "what a user feels, compared with an older checkout: start-up, main job, speed, large reports",
    "replay": "size and speed of the replay memory, compared with SKRL's, and time to save it",
    "reward_hacking": "how often the health event of this name is reported, with and without a cause",
    "scaling_fits": "how often intervals of contention and critical batch hold the true figures",
    "search_races": "how good the recipes are that searches find",
    "shared_ledger": "time to report on a ledger on a shared file system, compared with a local disk",
    "startup": "processor time of the start and the end of a training",
    "stock": "step times of LedgerLab's tasks, compared with Isaac Lab's tasks of the same robots",
    "studies": "how often a study claims a difference between its arms",
    "threads": "gradient steps of the recipes in one and in several threads of torch, on a CPU",
    "time_left": "how often intervals of the time that a run has left, and of a study's forecast, hold the true ones",
    "time_to_target": "time to the target with LedgerLab's recipe, compared with Isaac Lab's",
    "timing": "phases of a training on a GPU, by --timing host, events and synchronized",
    "training_kills": "check that the ledger stays correct when trainings are killed",
    "verdict": "how often policies below the target are proven, and how soon good policies are proven",
    "versus": "how often the comparison of two policies claims a difference, and how often its interval is right",
}


_EXAMPLE = "\nexample:\n  ./isaaclab.sh -p -m benchmarks overhead --rl_library skrl --pairs 4"


def main(argv: Sequence[str]) -> int:
    """Dispatch to a benchmark."""
    parser = argparse.ArgumentParser(
        prog="benchmarks",
        description=__doc__,
        epilog="\n".join(["benchmarks:", *(f"  {name:18}{what}" for name, what in BENCHMARKS.items()), _EXAMPLE]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "benchmark", metavar="NAME", choices=BENCHMARKS, help="Name of a benchmark; see the list below."
    )
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="Arguments of the benchmark; `NAME --help` lists them."
    )
    args = parser.parse_args(argv)
    module = importlib.import_module(f"benchmarks.{args.benchmark}")
    return getattr(module, f"bench_{args.benchmark}")(args.arguments)


if __name__ == "__main__":
    run_script(main)
