"""What a user asks of ``scripts/play.py`` and ``scripts/export_policy.py``."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.reports.terminal.flags import DEFAULT_TASK, Program
from ledger_lab.reports.terminal.request import Named, SimulationRequest, flag, log_root_flag
from ledger_lab.tasks.pretrained import shipped_checkpoint


@dataclass(frozen=True, kw_only=True)
class PolicyRequest(SimulationRequest):
    """What a user asks of a program that loads trained policies."""

    pretrained: bool = flag(
        False,
        (
            "Use the pretrained policy of --task, which the package contains. New files and scores are written to "
            "pretrained/ below --log_root, together with a copy of the training's journal. Reports therefore show the "
            "training and the scores."
        ),
    )
    task: str | None = flag(None, f"With --pretrained: Gymnasium id of the task (default: {DEFAULT_TASK}).")
    trust_run: bool = flag(
        False,
        "Allow the program to run Python code that the run names: the success function of its panel file, and "
        "functions, classes and files in its overrides. Use this flag only if you trust the authors of the run.",
    )
    allow_changed_code: bool = flag(
        False,
        "Continue even if code of the task, of the agent or of the success function has changed since the run was "
        "declared. Results record the changed modules.",
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
class _CheckpointRequest(PolicyRequest):
    """What a user asks of a program that loads a single policy."""

    checkpoint: str | None = flag(
        None,
        (
            "Checkpoint file, run id or run directory. If you name a run, the program takes its confirmed "
            "checkpoint, or its last checkpoint if none is confirmed."
        ),
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
class PlayRequest(_CheckpointRequest):
    """What a user asks of ``scripts/play.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="play.py",
        description="Play the policy of a checkpoint, and record a video (--video) or open a viewer (--viz NAME). "
        "Recording a video needs no GPU and no display.",
        terms=("run", "confirmed", "fresh seeds", "journal", "ledger"),
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
    video: bool = flag(False, "Record an mp4 file, and a PNG with four moments of the first episode, then exit.")
    action_range: bool = flag(
        False,
        "Print how large the policy's actions are, for the bound of algorithms that need one, then exit.",
    )
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
class ExportRequest(_CheckpointRequest):
    """What a user asks of ``scripts/export_policy.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="export_policy.py",
        description=(
            "Export the policy of a checkpoint, for example to run it on a robot. The program writes policy.pt "
            "(TorchScript), policy.onnx and contract.json. Both policy files include the observation normalizer. "
            "contract.json describes observations, actions, joints, gains and rates. Before it writes the files, the "
            "program tests both exported policies on observations of the task. If their actions differ from those of "
            "the trained policy by more than --tolerance, the program writes nothing and exits with status 1."
        ),
        terms=("run", "confirmed", "fresh seeds", "journal", "ledger"),
        examples=("export_policy.py RUN", "export_policy.py --task LedgerLab-Ant --pretrained --to ant_policy"),
    )

    to: Path | None = flag(None, "Folder to write to (default: exported/ in the directory of the run).", metavar="DIR")
    tolerance: float = flag(
        1e-5,
        "Largest accepted difference between actions of an exported file and of the trained policy (default: 1e-5). If "
        "the largest action is above 1, the difference is divided by the largest action.",
    )

    def __post_init__(self) -> None:
        """Refuse an impossible tolerance.

        Raises:
            UserError: If the tolerance is not positive and finite.
        """
        if not 0 < self.tolerance < math.inf:
            raise UserError(f"--tolerance {self.tolerance:g}: must be above 0, and finite")
