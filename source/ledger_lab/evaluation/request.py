"""What a user asks of ``scripts/evaluate.py``, ``scripts/new_panel.py`` and ``scripts/ship_policy.py``."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.terminal.request import (
    SimulationRequest,
    add_flags,
    flag,
    log_root_flag,
    pretrained_flag,
    pretrained_task_flag,
    trust_run_flag,
)


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest(SimulationRequest):
    """What a user asks of ``scripts/evaluate.py``: each field is an argument or a flag of the same name."""

    checkpoints: tuple[str, ...] = flag(
        (),
        "Run id, run directory or checkpoint file; any number. A run stands for all its checkpoints.",
        metavar="RUN_OR_CHECKPOINT",
        positional=True,
    )
    pretrained: bool = pretrained_flag()
    task: str | None = pretrained_task_flag()
    panel: str | None = flag(None, "Panel name or .toml file (default: the one the run declared).")
    target: float | None = flag(
        None,
        "Success to look for, in (0, 1] (default: the run's; for a panel that it did not declare, the panel's).",
    )
    sim: tuple[str, ...] = flag(
        (),
        "Score in one more simulation, too, and tell the difference: physics=NAME and env.PATH=VALUE on top of "
        "what the run declared, several in quotes, like 'env.sim.dt=0.004 env.decimation=4'. Can be repeated.",
        metavar="OVERRIDES",
    )
    versus: str | None = flag(
        None,
        "Compare the one named checkpoint with this one, episode by episode. Here a run stands for the checkpoint "
        "that was confirmed to reach the target, else for its last one.",
        metavar="RUN_OR_CHECKPOINT",
    )
    video: int | None = flag(
        None,
        "Record the N worst episodes of the last named checkpoint, one mp4 each, in videos/ beside the journal: "
        "failed ones first, then the shortest, then those of the lowest return. Needs no GPU and no display.",
        metavar="N",
    )
    trust_run: bool = trust_run_flag()
    log_root: Path = log_root_flag()

    def __post_init__(self) -> None:
        """Refuse to record nothing.

        Raises:
            UserError: If there are less than one video.
        """
        if self.video is not None and self.video < 1:
            raise UserError(f"--video {self.video}: must be at least 1")


def evaluate_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/evaluate.py``."""
    parser = argparse.ArgumentParser(
        prog="evaluate.py",
        description=(
            "Score any number of checkpoints on every episode of a panel, in one pass of one simulation, and write the "
            "results beside the journals of their runs. Exit status 0 if all scores are valid."
        ),
    )
    return add_flags(parser, EvaluateRequest)


def ship_policy_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/ship_policy.py``."""
    parser = argparse.ArgumentParser(
        prog="ship_policy.py",
        description=(
            "Put the policy of a run into the package, in place of the one that came for its task: the checkpoint that "
            "was confirmed to reach the target, a short journal of the run that proves it, and what "
            "scripts/export_policy.py wrote of this checkpoint. Telemetry, stand-alone evaluations and results of "
            "other checkpoints stay behind. The command checks all hashes, and that this code can score the policy."
        ),
    )
    parser.add_argument("run", metavar="RUN", help="Run id or run directory.")
    parser.add_argument(
        "--short_of_target",
        action="store_true",
        help=(
            "Ship a run that did not reach its target: its checkpoint with the best held-out score. Whoever uses it is "
            "told so."
        ),
    )
    parser.add_argument("--log_root", type=Path, default=Path("logs"), help="Root of the ledger (default: logs).")
    return parser


def new_panel_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/new_panel.py``."""
    parser = argparse.ArgumentParser(
        prog="new_panel.py",
        description=(
            "Write a panel file, the held-out exam of a task, for any manager-based task that is registered with Isaac "
            "Lab. It can be used as it is written, once its success function exists, and lists in comments what the "
            "task's configuration offers: terminations, commands, joints, observations, and example cells that perturb "
            "them. No simulation is started."
        ),
    )
    parser.add_argument("--task", required=True, help="Gymnasium id of the task; list_envs.py --all lists them.")
    parser.add_argument(
        "--output", type=Path, default=None, help="File to write, which must not exist (default: the task's id .toml)."
    )
    parser.add_argument("--seeds", type=int, default=256, help="Held-out episodes of each cell (default: 256).")
    parser.add_argument(
        "--target", type=float, default=0.9, help="Share of successes that a policy must reach (default: 0.9)."
    )
    parser.add_argument(
        "--success",
        metavar="MODULE:FUNCTION",
        default=None,
        help="Function that tells success; it may be written later (default: a name to write it under).",
    )
    return parser
