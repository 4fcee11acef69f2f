"""``scripts/ship_policy.py``: puts a run's policy into the package, for ``--pretrained``."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger import Run, Status
from ledger_lab.ledger.excerpt import write_excerpt
from ledger_lab.ledger.find import find_run
from ledger_lab.names import require_folder_name
from ledger_lab.reports import RunSummary, summarize_run
from ledger_lab.reports.terminal.console import Terminal
from ledger_lab.tasks.exported import CONTRACT, POLICY, read_origin
from ledger_lab.tasks.pretrained import ROOT
from ledger_lab.training.checkpoints.shipped import is_shipped, result_in_words
from ledger_lab.training.evaluation.plan import plan_evaluation
from ledger_lab.training.evaluation.request import EvaluateRequest, ShipRequest


def ship_policy(argv: Sequence[str]) -> int:
    """Put a run's best policy into the package.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If the policy can't be shipped; the package is unchanged then.
    """
    request = ShipRequest.parse(argv)
    terminal = Terminal()
    try:
        run = find_run(request.run, request.log_root)
        summary = summarize_run(run)
        checkpoint = _shippable(run, summary, short_of_target=request.short_of_target)
        evaluation = EvaluateRequest(
            checkpoints=(str(checkpoint),),
            device="cpu",
            trust_run=request.trust_run,
            allow_changed_code=request.allow_changed_code,
        )
        plan_evaluation(evaluation)
        exported = _exported(run, checkpoint)
        folder = _ship(run, summary, checkpoint, exported)
        terminal.console.print(f"run {summary.run_id} {result_in_words(summary)}", markup=False, soft_wrap=True)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        terminal.console.print(f"{folder}: {size / 1e6:.2f} MB", style="green", markup=False, soft_wrap=True)
    finally:
        terminal.restore()
    return 0


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
    if not best.confirmed and not short_of_target:
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
    proven = summary.best is not None and summary.best.confirmed
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
