"""The command line of ``scripts/profile_run.py``."""

from __future__ import annotations

import argparse
from pathlib import Path

from ledger_lab.runners.adapter import LIBRARIES
from ledger_lab.terminal.flags import DEFAULT_TASK, HelpFormatter, examples


def profile_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/profile_run.py``."""
    parser = argparse.ArgumentParser(
        prog="profile_run.py",
        description=(
            "Train a task for a few iterations and time the parts of an iteration: the physics step, every manager and "
            "term, forward passes, returns, minibatches, checkpoints and journal rows. The table shows microseconds "
            "per call (median, 10th and 90th percentile), the share of an iteration, and how much the timing slowed "
            "the training. On a GPU, the command waits for each call to finish; use --trace or --nsys to see what "
            "overlaps. No policy is scored, and nothing is written into the ledger."
        ),
        epilog=examples(
            "profile_run.py --task LedgerLab-Ant --num_envs 256 --json profile.json", "profile_run.py --trace"
        ),
        formatter_class=HelpFormatter,
    )
    what = parser.add_argument_group("what to profile")
    what.add_argument("--task", default=DEFAULT_TASK, help=f"Gymnasium id of a task (default: {DEFAULT_TASK}).")
    what.add_argument(
        "--rl_library", default=None, help=f"RL library: {', '.join(LIBRARIES)} (default: chosen by the task)."
    )
    what.add_argument("--num_envs", type=int, default=None, help="Number of environments (default: set by the task).")
    what.add_argument("--seed", type=int, default=None, help="Training seed (default: set by the agent configuration).")
    what.add_argument(
        "--panel", default=None, help="Panel whose number of episodes is used (default: set by the task)."
    )
    how = parser.add_argument_group("how to measure")
    how.add_argument("--warm_up", type=int, default=5, help="Iterations before the measurement (default: 5).")
    how.add_argument(
        "--iterations",
        type=int,
        default=10,
        help="Iterations to measure without timing of parts, and as many with it, in turns (default: 10).",
    )
    how.add_argument(
        "--trace",
        action="store_true",
        help="Record one more iteration with torch's profiler: a Chrome trace with the phases (open it in "
        "ui.perfetto.dev), and a table of the slowest operators.",
    )
    how.add_argument(
        "--nsys",
        action="store_true",
        help="Record a timeline with NVIDIA Nsight Systems instead, with the phases as NVTX ranges.",
    )
    how.add_argument("--json", type=Path, metavar="FILE", help="Also write all figures to this file.")
    how.add_argument("--log_root", type=Path, default=Path("logs"), help="Folder for the files (default: logs).")
    how.add_argument("--into", type=Path, help=argparse.SUPPRESS)  # set by this program for the run under nsys
    return parser
