"""The command line of ``scripts/evaluate.py``."""

from __future__ import annotations

import argparse
from pathlib import Path

from ledger_lab.runners.command_line import add_pretrained


def evaluate_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/evaluate.py``."""
    parser = argparse.ArgumentParser(
        prog="evaluate.py",
        description=(
            "Score any number of checkpoints on every episode of a panel, in one pass of one simulation, and write the "
            "results beside the journals of their runs. Exit status 0 if all scores are valid."
        ),
    )
    parser.add_argument(
        "checkpoints",
        nargs="*",
        metavar="RUN_OR_CHECKPOINT",
        help="Run id, run directory or checkpoint file; any number. A run stands for all its checkpoints.",
    )
    add_pretrained(parser)
    parser.add_argument("--panel", default=None, help="Panel name or .toml file (default: the one the run declared).")
    parser.add_argument(
        "--target",
        type=float,
        default=None,
        help="Success to look for, in (0, 1] (default: the run's; for a panel that it did not declare, the panel's).",
    )
    parser.add_argument(
        "--sim",
        action="append",
        default=[],
        metavar="OVERRIDES",
        help=(
            "Score in one more simulation, too, and tell the difference: physics=NAME and env.PATH=VALUE on top of "
            "what the run declared, several in quotes, like 'env.sim.dt=0.004 env.decimation=4'. Can be repeated."
        ),
    )
    parser.add_argument(
        "--versus",
        metavar="RUN_OR_CHECKPOINT",
        default=None,
        help=(
            "Compare the one named checkpoint with this one, episode by episode. Here a run stands for the checkpoint "
            "that was confirmed to reach the target, else for its last one."
        ),
    )
    parser.add_argument(
        "--video",
        type=int,
        metavar="N",
        default=None,
        help=(
            "Record the N worst episodes of the last named checkpoint, one mp4 each, in videos/ beside the journal: "
            "failed ones first, then the shortest, then those of the lowest return. Needs no GPU and no display."
        ),
    )
    parser.add_argument("--log_root", type=Path, default=Path("logs"), help="Root of the ledger (default: logs).")
    return parser
