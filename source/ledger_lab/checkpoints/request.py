"""The command lines of ``scripts/play.py`` and ``scripts/export_policy.py``."""

from __future__ import annotations

import argparse
from pathlib import Path

from ledger_lab.terminal.flags import add_pretrained


def play_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/play.py``."""
    parser = argparse.ArgumentParser(
        prog="play.py",
        description="Play a checkpoint, and record it with --video. Needs no GPU and no display with --viz newton_gl.",
    )
    parser.add_argument(
        "checkpoint",
        nargs="?",
        metavar="RUN_OR_CHECKPOINT",
        help=(
            "Checkpoint file, run id or run directory; of a run, the checkpoint that was confirmed to reach the "
            "target, else the last one."
        ),
    )
    add_pretrained(parser)
    parser.add_argument("--num_envs", type=int, default=16, help="Environments to play in (default: 16).")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the starts (default: 0).")
    parser.add_argument(
        "--video",
        action="store_true",
        help="Record an mp4, and beside it a PNG of four moments of the first episode, and stop.",
    )
    parser.add_argument("--video_length", type=int, default=300, help="Steps to record (default: 300).")
    parser.add_argument("--log_root", type=Path, default=Path("logs"), help="Root of the ledger (default: logs).")
    return parser


def export_policy_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/export_policy.py``."""
    parser = argparse.ArgumentParser(
        prog="export_policy.py",
        description=(
            "Write the policy of a checkpoint for a robot: policy.pt (TorchScript) and policy.onnx, with the "
            "observation normalizer inside, and contract.json: which observations it takes, in which order and with "
            "which scales, what becomes of its actions, joints, gains and rates. Both files are run, and compared with "
            "the live policy on observations of the task's own simulation; where they differ, nothing is written, and "
            "the exit status is 1."
        ),
    )
    parser.add_argument(
        "checkpoint",
        nargs="?",
        metavar="RUN_OR_CHECKPOINT",
        help=(
            "Checkpoint file, run id or run directory; of a run, the checkpoint that was confirmed to reach the "
            "target, else the last one."
        ),
    )
    add_pretrained(parser)
    parser.add_argument(
        "--to",
        type=Path,
        metavar="DIR",
        default=None,
        help="Folder to write (default: exported/ in the run's directory).",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-5,
        help="Largest error of an action, relative to the largest action where that is above 1 (default: 1e-5).",
    )
    parser.add_argument("--log_root", type=Path, default=Path("logs"), help="Root of the ledger (default: logs).")
    return parser
