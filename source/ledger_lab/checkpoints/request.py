"""The command lines of ``scripts/play.py`` and ``scripts/export_policy.py``."""

from __future__ import annotations

import argparse
from pathlib import Path

from ledger_lab.terminal.flags import HelpFormatter, add_pretrained, examples


def play_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/play.py``."""
    parser = argparse.ArgumentParser(
        prog="play.py",
        description="Play the policy of a checkpoint: record it with --video, or watch it in a viewer with --viz NAME. "
        "Recording needs no GPU and no display.",
        epilog=examples(
            "play.py RUN --video",
            "play.py --task LedgerLab-Ant --pretrained --video --num_envs 1",
            "play.py RUN --viz newton_gl",
        ),
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "checkpoint",
        nargs="?",
        metavar="RUN_OR_CHECKPOINT",
        help=(
            "Checkpoint file, run id or run directory. For a run, the confirmed checkpoint is taken, or the last one "
            "if none was confirmed."
        ),
    )
    add_pretrained(parser)
    parser.add_argument("--num_envs", type=int, default=16, help="Number of environments (default: 16).")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the initial states (default: 0).")
    parser.add_argument(
        "--video",
        action="store_true",
        help="Record an mp4 and a PNG of four moments of the first episode, then stop.",
    )
    parser.add_argument("--video_length", type=int, default=300, help="Environment steps to record (default: 300).")
    parser.add_argument("--log_root", type=Path, default=Path("logs"), help="Root of the ledger (default: logs).")
    return parser


def export_policy_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/export_policy.py``."""
    parser = argparse.ArgumentParser(
        prog="export_policy.py",
        description=(
            "Export the policy of a checkpoint for a robot: policy.pt (TorchScript) and policy.onnx, both with the "
            "observation normalizer inside, and contract.json, which describes observations, actions, joints, gains "
            "and rates. The command runs both files on observations of the task and compares their actions with those "
            "of the policy in training. If they differ, it writes nothing and exits with status 1."
        ),
        epilog=examples("export_policy.py RUN", "export_policy.py --task LedgerLab-Ant --pretrained --to ant_policy"),
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "checkpoint",
        nargs="?",
        metavar="RUN_OR_CHECKPOINT",
        help=(
            "Checkpoint file, run id or run directory. For a run, the confirmed checkpoint is taken, or the last one "
            "if none was confirmed."
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
        help="Largest allowed difference of an action; relative if the largest action is above 1 (default: 1e-5).",
    )
    parser.add_argument("--log_root", type=Path, default=Path("logs"), help="Root of the ledger (default: logs).")
    return parser
