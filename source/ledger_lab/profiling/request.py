"""What a user asks of ``scripts/profile_run.py``."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.runners.adapter import LIBRARIES
from ledger_lab.terminal.flags import DEFAULT_TASK
from ledger_lab.terminal.request import FlagGroup, SimulationRequest, add_flags, flag, log_root_flag

_WHAT = FlagGroup("what to profile")
_HOW = FlagGroup("how")


@dataclass(frozen=True, kw_only=True)
class ProfileRequest(SimulationRequest):
    """What a user asks of ``scripts/profile_run.py``: each field is a flag of the same name, but for the overrides."""

    overrides: tuple[str, ...] = ()
    """Hydra overrides."""
    task: str = flag(DEFAULT_TASK, f"Gymnasium id of a task (default: {DEFAULT_TASK}).", group=_WHAT)
    rl_library: str | None = flag(
        None, f"Library: {', '.join(LIBRARIES)} (default: the task's own choice).", group=_WHAT
    )
    num_envs: int | None = flag(None, "Environments (default: the task's).", group=_WHAT)
    seed: int | None = flag(None, "Seed of the training (default: the agent's).", group=_WHAT)
    panel: str | None = flag(None, "Held-out panel, for its number of episodes (default: the task's).", group=_WHAT)

    warm_up: int = flag(5, "Iterations before anything is measured (default: 5).", group=_HOW)
    iterations: int = flag(
        10,
        "Iterations to measure: so many left alone, and so many piece by piece, in turns (default: 10).",
        group=_HOW,
    )
    trace: bool = flag(
        False,
        "Record one more iteration with torch's profiler: a Chrome trace (chrome://tracing, ui.perfetto.dev) with "
        "ranges for the phases, and a table of the operators that take longest.",
        group=_HOW,
    )
    nsys: bool = flag(
        False,
        "Record the iterations with NVIDIA Nsight Systems instead, with NVTX ranges for the phases.",
        group=_HOW,
    )
    json: Path | None = flag(None, "Write all figures to this file, too.", group=_HOW, metavar="FILE")
    log_root: Path = log_root_flag("Where the files go (default: logs).", group=_HOW)
    into: Path | None = flag(None, argparse.SUPPRESS, group=_HOW)
    """Of what runs in Nsight Systems: the directory made for it."""

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
    return add_flags(parser, ProfileRequest)
