"""The command line of ``scripts/profile_run.py``."""

from __future__ import annotations

import argparse
from pathlib import Path

from ledger_lab.runners.adapter import LIBRARIES
from ledger_lab.terminal.flags import DEFAULT_TASK


def profile_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/profile_run.py``."""
    parser = argparse.ArgumentParser(
        prog="profile_run.py",
        description=(
            "Train a task for a few iterations, and time what each of them consists of: the physics step, every "
            "manager and term, forward passes, returns, minibatches, checkpoints, rows of the journal. Prints "
            "microseconds per call (median, 10th and 90th percentile) with their share of an iteration. The loop is "
            "the library's own, and the table says how much slower the timing made it. On a GPU every call is waited "
            "for, so look at --trace or --nsys for what overlaps."
        ),
        epilog="Held-out slots are left out. Nothing is written into the ledger.",
    )
    what = parser.add_argument_group("what to profile")
    what.add_argument("--task", default=DEFAULT_TASK, help=f"Gymnasium id of a task (default: {DEFAULT_TASK}).")
    what.add_argument(
        "--rl_library", default=None, help=f"Library: {', '.join(LIBRARIES)} (default: the task's own choice)."
    )
    what.add_argument("--num_envs", type=int, default=None, help="Environments (default: the task's).")
    what.add_argument("--seed", type=int, default=None, help="Seed of the training (default: the agent's).")
    what.add_argument("--panel", default=None, help="Held-out panel, for its number of episodes (default: the task's).")
    how = parser.add_argument_group("how")
    how.add_argument("--warm_up", type=int, default=5, help="Iterations before anything is measured (default: 5).")
    how.add_argument(
        "--iterations",
        type=int,
        default=10,
        help="Iterations to measure: so many left alone, and so many piece by piece, in turns (default: 10).",
    )
    how.add_argument(
        "--trace",
        action="store_true",
        help="Record one more iteration with torch's profiler: a Chrome trace (chrome://tracing, ui.perfetto.dev) with "
        "ranges for the phases, and a table of the operators that take longest.",
    )
    how.add_argument(
        "--nsys",
        action="store_true",
        help="Record the iterations with NVIDIA Nsight Systems instead, with NVTX ranges for the phases.",
    )
    how.add_argument("--json", type=Path, metavar="FILE", help="Write all figures to this file, too.")
    how.add_argument("--log_root", type=Path, default=Path("logs"), help="Where the files go (default: logs).")
    how.add_argument("--into", type=Path, help=argparse.SUPPRESS)  # what runs under nsys: the directory made for it
    return parser
