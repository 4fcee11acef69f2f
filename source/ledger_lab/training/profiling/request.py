"""What a user asks of ``scripts/profile_run.py``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.reports.terminal.request import FlagGroup, Named, Program, flag, log_root_flag
from ledger_lab.training.request import TaskRequest

_HOW = FlagGroup("how to measure")


@dataclass(frozen=True, kw_only=True)
class ProfileRequest(TaskRequest):
    """What a user asks of ``scripts/profile_run.py``: each field is a flag of the same name, but for the overrides."""

    program = Program(
        name="profile_run.py",
        description=(
            "Train a task for a few iterations, and show how long each part of an iteration takes. The parts are the "
            "physics step, every manager and term, forward passes, returns, minibatches and checkpoints. "
            "A table shows the time per call (median, 10th and 90th percentile) [µs] and the share of an iteration. It "
            "also shows how much the timing slowed the training down. On a GPU, each call is timed until the GPU has "
            "finished it. To see calls that overlap, use --trace or --nsys. No policy is scored, and the ledger does "
            "not change."
        ),
        examples=("profile_run.py --task LedgerLab-Ant --num_envs 256 --json profile.json", "profile_run.py --trace"),
    )

    panel: str | None = flag(
        None,
        "Panel (default: set by the task). As in a training, one held-out environment is simulated for each episode of "
        "the panel.",
    )

    warm_up: int = flag(5, "Number of iterations before the measurement (default: 5).", group=_HOW)
    iterations: int = flag(
        10,
        "Number of iterations whose parts are timed (default: 10). The same number of iterations runs without this "
        "timing, to measure how much it slows the training down.",
    )
    trace: bool = flag(
        False,
        (
            "Also record one iteration with torch's profiler. You get a table of the slowest operators, and a trace "
            "file with the phases, which ui.perfetto.dev can show."
        ),
    )
    nsys: bool = flag(
        False,
        "Mark the iterations after the warm-up, and their phases, for NVIDIA Nsight Systems, under which you start "
        "this program: nsys profile --trace=cuda,nvtx,osrt --capture-range=cudaProfilerApi. The parts of an "
        "iteration are then not timed.",
    )
    json: Path | None = flag(None, "Also write all results to this JSON file.")
    log_root: Path = log_root_flag("Folder to write the files of the profile to (default: logs).")

    def __post_init__(self) -> None:
        """Refuse what can't be measured.

        Raises:
            UserError: If nothing would be measured, or two profilers would measure each other.
        """
        for name in ("warm_up", "iterations"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name} {getattr(self, name)}: must be at least 1")
        if self.nsys and self.trace:
            raise UserError("--nsys and --trace cannot be used together: choose one")

    def named(self) -> Named:
        """Return the task, the library and the panel."""
        return Named(task=self.task, rl_library=self.rl_library, panel=self.panel)
