"""What the examples of other trainers read from the command line, and what they print."""

from __future__ import annotations

import argparse
from pathlib import Path

from ledger_lab.ledger import PanelResult


def parse(description: str, *, max_iterations: int, eval_every: int) -> argparse.Namespace:
    """Read the command line of an example.

    Args:
        description: What the example does.
        max_iterations: Iterations it may take by default.
        eval_every: Iterations between two judged policies by default.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=0, help="Seed of the training (default: 0).")
    parser.add_argument(
        "--max_iterations",
        type=int,
        default=max_iterations,
        help="Iterations it may take (default: %(default)s).",
    )
    parser.add_argument(
        "--eval_every",
        type=int,
        default=eval_every,
        help="Iterations between two judged policies (default: %(default)s).",
    )
    parser.add_argument("--usd_per_hour", type=float, help="Price of this machine [USD/h].")
    parser.add_argument("--log_root", type=Path, default=Path("logs"), help="Root of the ledger (default: logs).")
    return parser.parse_args()


def score_text(result: PanelResult) -> str:
    """Return a score in words.

    Args:
        result: The score of a policy.
    """
    score = f"{result.purpose}: {result.outcomes.successes} of {result.outcomes.episodes}"
    return f"{score}, {result.needed} needed"
