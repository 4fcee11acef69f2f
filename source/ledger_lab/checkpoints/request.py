"""What a user asks of ``scripts/play.py`` and ``scripts/export_policy.py``."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.terminal.flags import HelpFormatter, examples
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
    num_envs: int = flag(16, "Number of environments (default: 16).")
    seed: int = flag(0, "Seed of the initial states (default: 0).")
    video: bool = flag(False, "Record an mp4 and a PNG of four moments of the first episode, then stop.")
    video_length: int = flag(300, "Environment steps to record (default: 300).")
    trust_run: bool = trust_run_flag()
    log_root: Path = log_root_flag()

    def __post_init__(self) -> None:
        """Refuse what can't be played. With ``--pretrained``, a first argument ``NAME=VALUE`` is an override.

        Raises:
            UserError: If the value of a flag is impossible, or an override changes the policy.
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
        1e-5,
        "Largest allowed difference between actions (default: 1e-5). If an action is above 1, the difference is "
        "relative to the largest action.",
    )
    trust_run: bool = trust_run_flag()
    log_root: Path = log_root_flag()

    def __post_init__(self) -> None:
        """Refuse an impossible tolerance.

        Raises:
            UserError: If the tolerance is not positive and finite.
        """
        if not 0 < self.tolerance < math.inf:
            raise UserError(f"--tolerance {self.tolerance:g}: must be above 0, and finite")


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
    return add_flags(parser, PlayRequest)


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
    return add_flags(parser, ExportRequest)
