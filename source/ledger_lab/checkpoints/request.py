"""What a user asks of ``scripts/play.py`` and ``scripts/export_policy.py``."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.terminal.request import (
    SimulationRequest,
    add_flags,
    checkpoint_flag,
    flag,
    log_root_flag,
    pretrained_flag,
    pretrained_task_flag,
    trust_run_flag,
)


@dataclass(frozen=True, kw_only=True)
class PlayRequest(SimulationRequest):
    """What a user asks of ``scripts/play.py``: each field is an argument or a flag of the same name."""

    overrides: tuple[str, ...] = ()
    """Hydra overrides."""
    checkpoint: str | None = checkpoint_flag()
    pretrained: bool = pretrained_flag()
    task: str | None = pretrained_task_flag()
    num_envs: int = flag(16, "Environments to play in (default: 16).")
    seed: int = flag(0, "Seed of the starts (default: 0).")
    video: bool = flag(False, "Record an mp4, and beside it a PNG of four moments of the first episode, and stop.")
    video_length: int = flag(300, "Steps to record (default: 300).")
    trust_run: bool = trust_run_flag()
    log_root: Path = log_root_flag()

    def __post_init__(self) -> None:
        """Refuse what can't be played; take an override that stands where a checkpoint would for what it is.

        Raises:
            UserError: If a flag has no possible value, or an override changes the policy.
        """
        if self.pretrained and self.checkpoint is not None and "=" in self.checkpoint:
            object.__setattr__(self, "overrides", (self.checkpoint, *self.overrides))
            object.__setattr__(self, "checkpoint", None)
        if self.num_envs < 1 or self.video_length < 1:
            raise UserError("--num_envs and --video_length must be at least 1")
        if not 0 <= self.seed < 2**32:
            raise UserError(f"--seed {self.seed}: must lie between 0 and {2**32 - 1}")
        if changed := [override for override in self.overrides if override.startswith("agent.")]:
            raise UserError(
                f"override {changed[0]!r}: a policy is played as it was trained; env.PATH=VALUE changes its world"
            )


@dataclass(frozen=True, kw_only=True)
class ExportRequest(SimulationRequest):
    """What a user asks of ``scripts/export_policy.py``: each field is an argument or a flag of the same name."""

    checkpoint: str | None = checkpoint_flag()
    pretrained: bool = pretrained_flag()
    task: str | None = pretrained_task_flag()
    to: Path | None = flag(None, "Folder to write (default: exported/ in the run's directory).", metavar="DIR")
    tolerance: float = flag(
        1e-5, "Largest error of an action, relative to the largest action where that is above 1 (default: 1e-5)."
    )
    trust_run: bool = trust_run_flag()
    log_root: Path = log_root_flag()

    def __post_init__(self) -> None:
        """Refuse a tolerance that nothing or everything keeps.

        Raises:
            UserError: If the tolerance is not above 0, and finite.
        """
        if not 0 < self.tolerance < math.inf:
            raise UserError(f"--tolerance {self.tolerance:g}: must be above 0, and finite")


def play_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/play.py``."""
    parser = argparse.ArgumentParser(
        prog="play.py",
        description="Play a checkpoint, and record it with --video. Needs no GPU and no display with --viz newton_gl.",
    )
    return add_flags(parser, PlayRequest)


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
    return add_flags(parser, ExportRequest)
