"""What a user asks of ``scripts/evaluate.py`` and ``scripts/new_panel.py``."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.panels.panel import require_target
from ledger_lab.reports.terminal.request import Named, Program, Request, flag
from ledger_lab.training.checkpoints.request import PolicyRequest


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest(PolicyRequest):
    """What a user asks of ``scripts/evaluate.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="evaluate.py",
        description=(
            "Score checkpoints, all in the same simulation, on every held-out episode of a panel, and record the "
            "scores in the ledger. The exit status is 0 if all scores are valid, otherwise 1."
        ),
        examples=(
            "evaluate.py RUN --panel cartpole_robust_v1 --video 3",
            "evaluate.py RUN --versus OTHER_RUN --sim physics=ovphysx",
            "evaluate.py --task LedgerLab-Ant --pretrained --panel ant_robust_v1",
        ),
    )

    checkpoints: tuple[str, ...] = flag(
        (),
        "Run id, run directory or checkpoint file. If you name a run, all its checkpoints are scored.",
        metavar="RUN_OR_CHECKPOINT",
        positional=True,
    )
    panel: str | None = flag(
        None,
        "Panel to score on: a name that list_envs.py --long lists, or your own .toml file (default: set by the run).",
    )
    target: float | None = flag(
        None,
        "Success rate to reach, above 0 and at most 1 (default: set by the run, or by --panel).",
    )
    sim: tuple[str, ...] = flag(
        (),
        (
            "Also score in a simulation that differs from the run's by physics=NAME or env.PATH=VALUE. On generated "
            "terrain, ground=trained scores on the patches of the training, and ground=held_out on others. To "
            "change several values at once, write them in one pair of quotes. For another simulation, repeat the flag."
        ),
        metavar="OVERRIDES",
    )
    versus: str | None = flag(
        None,
        (
            "Second checkpoint or run. Both play the same fresh episodes, and the success rates are compared. A run "
            "stands for its proven checkpoint, or else its last."
        ),
        metavar="RUN_OR_CHECKPOINT",
    )
    video: int | None = flag(
        None,
        "Number of worst episodes of the last checkpoint to record as mp4 files (default: 0); no GPU is needed.",
    )

    def __post_init__(self) -> None:
        """Refuse an impossible target or number of videos.

        Raises:
            UserError: If the target is no share, or the number is below 1.
        """
        require_target(self.target)
        if self.video is not None and self.video < 1:
            raise UserError(f"--video {self.video}: must be at least 1")

    def sources(self) -> list[str]:
        """Return the runs and checkpoints to score, without :attr:`versus`.

        Raises:
            UserError: If nothing is named, or the task has no pretrained policy.
        """
        return self.with_pretrained(*self.checkpoints)

    def named(self) -> Named:
        """Return the panel, and all runs and checkpoints."""
        others = () if self.versus is None else (self.versus,)
        return Named(panel=self.panel, runs=(*self.sources(), *others), log_root=self.log_root)


@dataclass(frozen=True, kw_only=True)
class NewPanelRequest(Request):
    """What a user asks of ``scripts/new_panel.py``: each field is a flag of the same name."""

    program = Program(
        name="new_panel.py",
        description=(
            "Write a first panel file for your task. You write the success function. Comments in the "
            "file name the terminations, commands, joints and observations of the task, and show an example of each "
            "perturbation. No simulation is started."
        ),
        examples=("new_panel.py --task LedgerLab-Ant --seeds 128 --target 0.8 --output ant_far.toml",),
    )

    task: str = flag(MISSING, "Gymnasium id of the task; scripts/list_envs.py --all lists all tasks.")
    output: Path | None = flag(None, "File to write, which must not exist (default: a name made from the task).")
    seeds: int = flag(256, "Number of held-out episodes per cell (default: 256).")
    target: float = flag(0.9, "Success rate to reach, above 0 and at most 1 (default: 0.9).")
    success: str | None = flag(
        None,
        "Success function, which you can write later (default: an example name).",
        metavar="MODULE:FUNCTION",
    )

    def __post_init__(self) -> None:
        """Refuse values that no panel can have.

        Raises:
            UserError: If there are no seeds, the target is no share, or a name can't be one.
        """
        if self.seeds < 1:
            raise UserError(f"--seeds {self.seeds}: must be at least 1")
        require_target(self.target)
        if self.output is not None and self.output.suffix != ".toml":
            raise UserError(f"--output {self.output}: the name of a panel file must end in .toml")
        module, _, function = (self.success or "").partition(":")
        if self.success is not None and not all(name.isidentifier() for name in [*module.split("."), function]):
            raise UserError(f"--success {self.success!r}: must read module:function, like my_tasks.success:upright")

    def named(self) -> Named:
        """Return the task."""
        return Named(task=self.task)
