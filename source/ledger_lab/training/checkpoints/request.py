"""What a user asks of ``scripts/play.py`` and ``scripts/export_policy.py``."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.reports.terminal.request import DEFAULT_TASK, Named, Program, SimulationRequest, flag, log_root_flag
from ledger_lab.tasks.pretrained import shipped_checkpoint


@dataclass(frozen=True, kw_only=True)
class PolicyRequest(SimulationRequest):
    """What a user asks of a program that loads trained policies."""

    pretrained: bool = flag(
        False,
        "Use the policy of --task that comes with the package. Outputs go to pretrained/ below --log_root.",
    )
    task: str | None = flag(None, f"With --pretrained: Gymnasium id of the task (default: {DEFAULT_TASK}).")
    trust_run: bool = flag(
        False,
        "Run Python code that the run names in its panel file and its overrides, if you trust its authors.",
    )
    allow_changed_code: bool = flag(
        False,
        "Continue although code of the task, agent or success function has changed since the run started.",
    )
    log_root: Path = log_root_flag()

    def with_pretrained(self, *names: str) -> list[str]:
        """Return the runs and checkpoints that a user names, with the checkpoint file that ``--pretrained`` means.

        Args:
            names: The named runs and checkpoints.

        Raises:
            UserError: If nothing is named, or no policy comes for the task.
        """
        if self.pretrained:
            return [*names, str(shipped_checkpoint(self.task or DEFAULT_TASK))]
        if self.task is not None:
            raise UserError(
                f"--task {self.task}: add --pretrained, or leave --task out, because a run names its own task"
            )
        if not names:
            raise UserError("name a run or a checkpoint, or use --task X --pretrained")
        return [*names]


@dataclass(frozen=True, kw_only=True)
class CheckpointRequest(PolicyRequest):
    """What a user asks of a program that loads a single policy."""

    checkpoint: str | None = flag(
        None,
        "Checkpoint file, run id or run directory. A run stands for its proven checkpoint, or else its last.",
        metavar="RUN_OR_CHECKPOINT",
        positional=True,
    )

    def source(self) -> str:
        """Return the run or checkpoint to load the policy from.

        Raises:
            UserError: If nothing or two things are named, or no policy comes for the task.
        """
        found, *others = self.with_pretrained(*(() if self.checkpoint is None else (self.checkpoint,)))
        if others:
            raise UserError(f"{found} and --pretrained name two policies: leave one of them out")
        return found

    def named(self) -> Named:
        """Return the run or checkpoint."""
        return Named(runs=(self.source(),), log_root=self.log_root)


@dataclass(frozen=True, kw_only=True)
class PlayRequest(CheckpointRequest):
    """What a user asks of ``scripts/play.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="play.py",
        description="Play the policy of a checkpoint, and record a video (--video) or open a viewer (--viz NAME). "
        "Recording a video needs no GPU and no display.",
        examples=(
            "play.py RUN --video",
            "play.py --task LedgerLab-Ant --pretrained --video --num_envs 1",
            "play.py RUN --viz newton_gl",
            "play.py RUN --action_range",
        ),
    )

    overrides: tuple[str, ...] = ()
    """Hydra overrides."""
    num_envs: int = flag(16, "Number of environments (default: 16).")
    seed: int = flag(0, "Seed of the initial states (default: 0).")
    video: bool = flag(False, "Record an mp4 file, then exit.")
    action_range: bool = flag(False, "Print how large the policy's actions are, then exit.")
    video_length: int = flag(300, "Environment steps of the video, or of --action_range (default: 300).")

    def __post_init__(self) -> None:
        """Refuse what can't be played. With ``--pretrained``, a first argument ``NAME=VALUE`` is an override.

        Raises:
            UserError: If the value of a flag is impossible, an override changes the policy, or nothing would be seen.
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
                f"override {changed[0]!r}: leave it out, because a policy is played as it was trained; only "
                "env.PATH=VALUE is allowed"
            )
        viewers = self.launcher.get("visualizer") or ()
        if not (self.video or self.action_range or viewers):
            raise UserError("nothing to see: record a video with --video, or open a viewer with --viz newton_gl")
        if not self.video and "newton_gl" in viewers and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
            raise UserError("--viz newton_gl opens a window, and there is no display: add --video, or set DISPLAY")


@dataclass(frozen=True, kw_only=True)
class ExportRequest(CheckpointRequest):
    """What a user asks of ``scripts/export_policy.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="export_policy.py",
        description=(
            "Export the policy of a checkpoint, with its normalizer, as policy.pt (TorchScript) and policy.onnx. "
            "contract.json describes observations, actions, joints, gains and rates. If actions of an exported file "
            "differ from those of the policy by more than --tolerance, nothing is written, and the exit status is 1."
        ),
        examples=("export_policy.py RUN", "export_policy.py --task LedgerLab-Ant --pretrained --to ant_policy"),
    )

    to: Path | None = flag(None, "Folder to write to (default: exported/ in the directory of the run).", metavar="DIR")
    tolerance: float = flag(
        1e-5,
        "Largest difference of an action, relative to the largest action if that is above 1 (default: 1e-5).",
    )

    def __post_init__(self) -> None:
        """Refuse an impossible tolerance.

        Raises:
            UserError: If the tolerance is not positive and finite.
        """
        if not 0 < self.tolerance < math.inf:
            raise UserError(f"--tolerance {self.tolerance:g}: must be above 0, and finite")
