"""What a user asks of ``scripts/evaluate.py``, ``scripts/new_panel.py`` and ``scripts/ship_policy.py``."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path

from ledger_lab.checkpoints.request import PolicyRequest
from ledger_lab.errors import UserError
from ledger_lab.panels.panel import require_target
from ledger_lab.terminal.flags import Program
from ledger_lab.terminal.request import Named, Request, flag, log_root_flag


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest(PolicyRequest):
    """What a user asks of ``scripts/evaluate.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="evaluate.py",
        description=(
            "Score any number of checkpoints on all held-out episodes of a panel, in one simulation, and write the "
            "results into the directories of their runs. The exit status is 0 if all scores are valid, else 1."
        ),
        examples=(
            "evaluate.py RUN --panel cartpole_robust_v1 --video 3",
            "evaluate.py RUN --versus OTHER_RUN --sim physics=ovphysx",
            "evaluate.py --task LedgerLab-Ant --pretrained --panel ant_robust_v1",
        ),
    )

    checkpoints: tuple[str, ...] = flag(
        (),
        "Run ids, run directories or checkpoint files. For a run, all of its checkpoints are scored.",
        metavar="RUN_OR_CHECKPOINT",
        positional=True,
    )
    panel: str | None = flag(None, "Panel name or .toml file (default: the panel of the run).")
    target: float | None = flag(
        None,
        "Share of successful episodes to reach, in (0, 1] (default: set by the run; with --panel, by the panel).",
    )
    sim: tuple[str, ...] = flag(
        (),
        (
            "Also score in another simulation, and show the difference. OVERRIDES are physics=NAME and env.PATH=VALUE. "
            "They are added to the overrides of the run. Put several into quotes: 'env.sim.dt=0.004 env.decimation=4'. "
            "Can be repeated."
        ),
        metavar="OVERRIDES",
    )
    versus: str | None = flag(
        None,
        (
            "Compare two checkpoints, episode by episode: the positional argument with the argument of --versus. "
            "If you name a run, its confirmed checkpoint is taken, or its last one if none was confirmed."
        ),
        metavar="RUN_OR_CHECKPOINT",
    )
    video: int | None = flag(
        None,
        (
            "Record the N worst episodes, one mp4 each, in videos/ beside the journal. If you name several "
            "checkpoints, the last one is filmed. Failed episodes come first, then the shortest, then those with the "
            "lowest return. Needs no GPU and no display."
        ),
        metavar="N",
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
        """Return the runs and checkpoints to score, beside :attr:`versus`.

        Raises:
            UserError: If nothing is named, or no policy comes for the task.
        """
        return self.with_pretrained(*self.checkpoints)

    def named(self) -> Named:
        """Return the panel, and all runs and checkpoints."""
        others = () if self.versus is None else (self.versus,)
        return Named(panel=self.panel, runs=(*self.sources(), *others), log_root=self.log_root)


@dataclass(frozen=True, kw_only=True)
class ShipRequest(Request):
    """What a user asks of ``scripts/ship_policy.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="ship_policy.py",
        description=(
            "Put the policy of a run into the package, in place of the present policy of its task. The command copies "
            "the confirmed checkpoint, a short journal that proves it, and the files that scripts/export_policy.py "
            "wrote for this checkpoint. Telemetry, stand-alone evaluations and scores of other checkpoints are left "
            "out. The command checks all hashes, and that the present code can score the policy."
        ),
        examples=("export_policy.py RUN", "ship_policy.py RUN"),
    )

    run: str = flag(MISSING, "Run id or run directory.", metavar="RUN", positional=True)
    short_of_target: bool = flag(
        False,
        "Accept a run that did not reach its target, and take its checkpoint with the best held-out score. Users of "
        "the policy are told.",
    )
    log_root: Path = log_root_flag()

    def named(self) -> Named:
        """Return the run."""
        return Named(runs=(self.run,), log_root=self.log_root)


@dataclass(frozen=True, kw_only=True)
class NewPanelRequest(Request):
    """What a user asks of ``scripts/new_panel.py``: each field is a flag of the same name."""

    program = Program(
        name="new_panel.py",
        description=(
            "Write a panel file for a manager-based task that is registered with Isaac Lab. A panel defines the "
            "held-out episodes that policies of the task are scored on. Its cells are the conditions under which they "
            "are scored: nominal, or perturbed. The file can be used unchanged, once its success function exists. "
            "Comments in it list the task's terminations, commands, joints and observations, and show example cells "
            "that perturb them. The command starts no simulation."
        ),
        examples=("new_panel.py --task LedgerLab-Ant --seeds 128 --target 0.8 --output ant_far.toml",),
    )

    task: str = flag(MISSING, "Gymnasium id of the task; list_envs.py --all lists them.")
    output: Path | None = flag(None, "New file to write (default: named after the task).")
    seeds: int = flag(256, "Held-out episodes per cell (default: 256).")
    target: float = flag(0.9, "Share of successful episodes that a policy must reach (default: 0.9).")
    success: str | None = flag(
        None,
        "Success function; you may write it later (default: an example name, which you replace).",
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
        if self.success and not all(name.isidentifier() for name in [*module.split("."), function]):
            raise UserError(f"--success {self.success!r}: must read module:function, like my_tasks.success:upright")

    def named(self) -> Named:
        """Return the task."""
        return Named(task=self.task)
