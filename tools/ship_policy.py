"""Puts the policy of a run into the package, as the pretrained policy of its task.

``./isaaclab.sh -p -m tools.ship_policy RUN`` copies the proven checkpoint, a short journal that proves its success,
and the files that ``scripts/export_policy.py`` wrote for this checkpoint. The short journal has no telemetry, no scores
of other checkpoints and no scores by ``scripts/evaluate.py``. First, all hashes are checked, and that the present code
can score the policy.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger import Run, Status
from ledger_lab.ledger.find import find_run
from ledger_lab.names import require_folder_name
from ledger_lab.reports import RunSummary, summarize_run
from ledger_lab.tasks.exported import CONTRACT, POLICY, read_origin
from ledger_lab.tasks.pretrained import ROOT
from ledger_lab.training.checkpoints.shipped import is_shipped, result_in_words
from ledger_lab.training.evaluation.plan import plan_evaluation
from ledger_lab.training.evaluation.request import EvaluateRequest
from tools.excerpt import write_excerpt


def ship_policy(argv: Sequence[str] | None = None) -> Path:
    """Put a run's best policy into the package.

    Args:
        argv: Command line without the program's name; the process's own by default.

    Returns:
        The folder of the policy.

    Raises:
        UserError: If the policy can't be shipped; the package is unchanged then.
    """
    parser = argparse.ArgumentParser(description="Put the policy of a run into the package, for --pretrained.")
    parser.add_argument("run", help="Run id or run directory.")
    parser.add_argument("--short_of_target", action="store_true", help="Accept a run that did not reach its target, "
                        "and take the checkpoint with the best held-out score.")  # fmt: skip
    parser.add_argument("--trust_run", action="store_true", help="See scripts/evaluate.py, as for the next flag.")
    parser.add_argument("--allow_changed_code", action="store_true")
    parser.add_argument("--log_root", type=Path, default=Path("logs"), help="Root of the ledger.")
    asked = parser.parse_args(argv)
    run = find_run(asked.run, asked.log_root)
    summary = summarize_run(run)
    checkpoint = _shippable(run, summary, short_of_target=asked.short_of_target)
    evaluation = EvaluateRequest(
        checkpoints=(str(checkpoint),),
        device="cpu",
        trust_run=asked.trust_run,
        allow_changed_code=asked.allow_changed_code,
    )
    plan_evaluation(evaluation)
    folder = _ship(run, summary, checkpoint, _exported(run, checkpoint))
    print(f"{folder}: run {summary.run_id} {result_in_words(summary)}")
    return folder


def _shippable(run: Run, summary: RunSummary, *, short_of_target: bool) -> Path:
    """Return the checkpoint of a run to ship; refuse runs that must not be shipped."""
    name = f"run {summary.run_id}"
    require_folder_name(f"task of {name}", summary.task)
    if is_shipped(run.directory):
        raise UserError(f"{name} came with the package: name another run")
    if summary.status in (Status.RUNNING, Status.INVALID):
        raise UserError(f"{name} is {summary.status}: name a run that has ended and is valid")
    best = summary.best
    if best is None:
        raise UserError(f"{name} {result_in_words(summary)}: name another run")
    if not best.proven and not short_of_target:
        raise UserError(f"{name} {result_in_words(summary)}: to ship it nevertheless, add --short_of_target")
    return run.directory / best.path


def _exported(run: Run, checkpoint: Path) -> Path:
    """Return the folder with the exported policy of a checkpoint; refuse an export of another checkpoint."""
    folder = run.directory / "exported"
    way_out = f"run scripts/export_policy.py {shlex.quote(str(checkpoint))}"
    origin = read_origin(folder / POLICY, way_out)
    if run.directory / origin.checkpoint != checkpoint:
        raise UserError(f"{folder} was exported from another checkpoint, {origin.checkpoint}: {way_out}")
    saved = next(row for row in run.checkpoints if run.directory / row.path == checkpoint)
    if origin.checkpoint_sha256 != saved.sha256:
        raise UserError(f"{folder} was exported from another file named {origin.checkpoint}: {way_out}")
    return folder


def _ship(run: Run, summary: RunSummary, checkpoint: Path, exported: Path) -> Path:
    """Write the files to ship, then replace the folder of the task at once."""
    folder = ROOT / run.declared.task
    kept = checkpoint.relative_to(run.directory).as_posix()
    files = {checkpoint: Path(kept), **{exported / name: Path(name) for name in (CONTRACT, POLICY)}}
    proven = summary.best is not None and summary.best.proven
    try:
        with tempfile.TemporaryDirectory(prefix=".", dir=ROOT) as scratch:
            fresh = Path(scratch, "fresh")
            for file, place in files.items():
                (fresh / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, fresh / place)
            write_excerpt(run, fresh, kept if proven else None)
            if folder.exists():
                folder.rename(Path(scratch, "old"))
            fresh.rename(folder)
    except OSError as error:
        raise UserError(f"cannot write to {ROOT}: {error.strerror}") from error
    return folder


if __name__ == "__main__":
    try:
        ship_policy()
    except UserError as error:
        sys.exit(f"error: {error}")
