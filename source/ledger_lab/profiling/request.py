"""What a user asks of ``scripts/profile_run.py``."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.terminal.flags import Program
from ledger_lab.terminal.request import FlagGroup, Named, flag, log_root_flag
from ledger_lab.training.task_request import TASK, TaskRequest

_HOW = FlagGroup("how to measure")


@dataclass(frozen=True, kw_only=True)
class ProfileRequest(TaskRequest):
    """What a user asks of ``scripts/profile_run.py``: each field is a flag of the same name, but for the overrides."""

    program = Program(
        name="profile_run.py",
        description="Train a task for a few iterations and time the parts of an iteration: the physics step, every "
        "manager and term, forward passes, returns, minibatches, checkpoints and journal rows. The table shows "
        "microseconds per call (median, 10th and 90th percentile), the share of an iteration, and how much the timing "
        "slowed the training. On a GPU, the command waits for each call to finish; use --trace or --nsys to see what "
        "overlaps. No policy is scored, and nothing is written into the ledger.",
        examples=(
            "profile_run.py --task LedgerLab-Ant --num_envs 256 --json profile.json",
            "profile_run.py --trace",
        ),
    )

    panel: str | None = flag(
        None,
        "Panel: one held-out environment is added for each of its episodes (default: set by the task).",
        group=TASK,
    )

    warm_up: int = flag(5, "Iterations before the measurement (default: 5).", group=_HOW)
    iterations: int = flag(
        10,
        "Iterations to time in parts (default: 10). As many iterations run without this timing, for comparison.",
        group=_HOW,
    )
    trace: bool = flag(
        False,
        "Record one more iteration with torch's profiler: a Chrome trace with the phases (open it in "
        "ui.perfetto.dev), and a table of the slowest operators.",
        group=_HOW,
    )
    nsys: bool = flag(
        False,
        "Record a timeline with NVIDIA Nsight Systems instead, with the phases as NVTX ranges.",
        group=_HOW,
    )
    json: Path | None = flag(None, "Also write all figures to this file.", group=_HOW, metavar="FILE")
    log_root: Path = log_root_flag("Folder for the files (default: logs).", group=_HOW)
    into: Path | None = flag(None, argparse.SUPPRESS, group=_HOW)
    """Set when Nsight Systems runs this program: the directory of the profile."""

    def __post_init__(self) -> None:
        """Refuse what can't be measured.

        Raises:
            UserError: If nothing would be measured, or two profilers would measure each other.
        """
        for name in ("warm_up", "iterations"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name} {getattr(self, name)}: must be at least 1")
        if self.nsys and self.trace:
            raise UserError("--nsys and --trace record each other: choose one")

    def named(self) -> Named:
        """Return the task, the library and the panel."""
        return Named(task=self.task, rl_library=self.rl_library, panel=self.panel)
