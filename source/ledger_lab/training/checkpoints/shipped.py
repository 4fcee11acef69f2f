"""Policies that come with the package, for programs that accept runs and checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path

from ledger_lab.files import make_folder, whole_file
from ledger_lab.ledger import Run, find_journals
from ledger_lab.ledger.find import read_runs
from ledger_lab.reports import RunSummary
from ledger_lab.tasks.pretrained import ROOT
from ledger_lab.units import target_share


def is_shipped(run_dir: Path) -> bool:
    """Tell whether a run's directory is inside the package, where nothing may be written."""
    return run_dir.is_relative_to(ROOT)


def output_directory(run: Run, log_root: Path) -> Path:
    """Return the directory for outputs of a run's checkpoints: scores, videos, files for a robot.

    Args:
        run: The run.
        log_root: Root of the ledger.

    Returns:
        The run's own directory. For a run that came with the package, the directory of its copy under the root, which
        may not exist yet.

    Raises:
        UserError: If the ledger can't be read.
    """
    if not is_shipped(run.directory):
        return run.directory
    run_id = run.declared.run_id
    known = {each.declared.run_id: each.directory for each in read_runs(log_root)}
    return known.get(run_id, log_root.resolve() / "pretrained" / run.declared.task / run_id)


def copy_shipped_run(source: Path, home: Path) -> None:
    """Copy a run that came with the package below the root of the ledger, so that new rows belong to the run.

    Args:
        source: The run's directory.
        home: Directory of the copy. Nothing is copied if it holds journals already.

    Raises:
        OSError: If it can't be written.
    """
    if find_journals(home):
        return
    log_root = home.parents[2]  # see output_directory
    make_folder(log_root)
    for file in source.rglob("*"):
        if file.is_file():
            with whole_file(home / file.relative_to(source), root=log_root) as unfinished:
                shutil.copyfile(file, unfinished)


def result_in_words(summary: RunSummary) -> str:
    """Return in words whether a run reached its target, and the score of its best checkpoint."""
    best, target = summary.best, target_share(summary.target_success)
    if best is None:
        return f"has no held-out score to compare with its target of {target}"
    if best.proven:
        won, episodes = best.proof_successes, best.proof_episodes
        return f"reached its target of {target}: {won} of {episodes} fresh episodes"
    won, episodes = best.heldout_successes, best.heldout_episodes
    scores = sum(each.heldout_successes is not None for each in summary.checkpoints)
    return f"fell short of its target of {target}: {won} of {episodes} held-out episodes, the best of {scores} scores"
