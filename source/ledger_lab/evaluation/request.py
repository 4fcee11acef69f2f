"""What a user asks of ``scripts/evaluate.py``, ``scripts/new_panel.py`` and ``scripts/ship_policy.py``."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.terminal.flags import HelpFormatter, examples
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
        "Run ids, run directories or checkpoint files. For a run, all of its checkpoints are scored.",
        metavar="RUN_OR_CHECKPOINT",
        positional=True,
    )
    pretrained: bool = pretrained_flag()
    task: str | None = pretrained_task_flag()
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
    trust_run: bool = trust_run_flag()
    log_root: Path = log_root_flag()

    def __post_init__(self) -> None:
        """Refuse an impossible number of videos.

        Raises:
            UserError: If the number is below 1.
        """
        if self.video is not None and self.video < 1:
            raise UserError(f"--video {self.video}: must be at least 1")


def evaluate_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/evaluate.py``."""
    parser = argparse.ArgumentParser(
        prog="evaluate.py",
        description=(
            "Score any number of checkpoints on all held-out episodes of a panel, in one simulation, and write the "
            "results into the directories of their runs. The exit status is 0 if all scores are valid, else 1."
        ),
        epilog=examples(
            "evaluate.py RUN --panel cartpole_robust_v1 --video 3",
            "evaluate.py RUN --versus OTHER_RUN --sim physics=ovphysx",
            "evaluate.py --task LedgerLab-Ant --pretrained --panel ant_robust_v1",
        ),
        formatter_class=HelpFormatter,
    )
    return add_flags(parser, EvaluateRequest)


def ship_policy_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/ship_policy.py``."""
    parser = argparse.ArgumentParser(
        prog="ship_policy.py",
        description=(
            "Put the policy of a run into the package, in place of the present policy of its task. The command copies "
            "the confirmed checkpoint, a short journal that proves it, and the files that scripts/export_policy.py "
            "wrote for this checkpoint. Telemetry, stand-alone evaluations and scores of other checkpoints are left "
            "out. The command checks all hashes, and that the present code can score the policy."
        ),
        epilog=examples("export_policy.py RUN", "ship_policy.py RUN"),
        formatter_class=HelpFormatter,
    )
    parser.add_argument("run", metavar="RUN", help="Run id or run directory.")
    parser.add_argument(
        "--short_of_target",
        action="store_true",
        help=(
            "Accept a run that did not reach its target, and take its checkpoint with the best held-out score. Users "
            "of the policy are told."
        ),
    )
    parser.add_argument("--log_root", type=Path, default=Path("logs"), help="Root of the ledger (default: logs).")
    return parser


def new_panel_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/new_panel.py``."""
    parser = argparse.ArgumentParser(
        prog="new_panel.py",
        description=(
            "Write a panel file for a manager-based task that is registered with Isaac Lab. A panel defines the "
            "held-out episodes that policies of the task are scored on. Its cells are the conditions under which they "
            "are scored: nominal, or perturbed. The file can be used unchanged, once its success function exists. "
            "Comments in it list the task's terminations, commands, joints and observations, and show example cells "
            "that perturb them. The command starts no simulation."
        ),
        epilog=examples("new_panel.py --task LedgerLab-Ant --seeds 128 --target 0.8 --output ant_far.toml"),
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--task", required=True, help="Gymnasium id of the task; list_envs.py --all lists them.")
    parser.add_argument("--output", type=Path, default=None, help="New file to write (default: named after the task).")
    parser.add_argument("--seeds", type=int, default=256, help="Held-out episodes per cell (default: 256).")
    parser.add_argument(
        "--target",
        type=float,
        default=0.9,
        help="Share of successful episodes that a policy must reach (default: 0.9).",
    )
    parser.add_argument(
        "--success",
        metavar="MODULE:FUNCTION",
        default=None,
        help="Success function; you may write it later (default: an example name, which you replace).",
    )
    return parser
