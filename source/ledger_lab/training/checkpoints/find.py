"""Searches for runs and checkpoints that the user names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import CheckpointSaved, Run
from ledger_lab.ledger.find import find_run
from ledger_lab.reports import summarize_run
from ledger_lab.training.runners.checkpoint_file import require_recorded_hash


@dataclass(frozen=True)
class FoundCheckpoint:
    """A checkpoint, and the run that saved it."""

    run: Run
    saved: CheckpointSaved

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self.run.declared.run_id

    @property
    def path(self) -> Path:
        """The file. Of a pretrained policy, it may be inside the package."""
        return self.run.directory / self.saved.path

    def require_unchanged(self) -> None:
        """Refuse a file whose hash differs from the hash in the ledger.

        Raises:
            UserError: If the file is missing, or its hash differs.
        """
        require_recorded_hash(self.path, self.saved, self.run_id)


def find_checkpoints(names: Sequence[str], log_root: Path) -> list[FoundCheckpoint]:
    """Find every checkpoint that is named, or that belongs to a named run.

    Args:
        names: Run ids or their beginnings, run directories, checkpoint files.
        log_root: Root of the ledger, where run ids are looked up.

    Returns:
        The checkpoints, each once, in the order they are named.

    Raises:
        UserError: If nothing or several runs match a name.
    """
    found: dict[tuple[str, str], FoundCheckpoint] = {}
    for name in names:
        path = Path(name)
        if path.is_file():
            checkpoints = [_of_file(path)]
        else:
            run = find_run(name, log_root)
            checkpoints = [FoundCheckpoint(run, saved) for saved in run.checkpoints]
            if not checkpoints:
                raise UserError(f"run {run.declared.run_id} has saved no checkpoint: name another run")
        for checkpoint in checkpoints:
            found[checkpoint.run_id, checkpoint.saved.path] = checkpoint
    return list(found.values())


def best_checkpoint(name: str, log_root: Path) -> FoundCheckpoint:
    """Find one checkpoint. Of a run, it is the proven checkpoint, or the last if none was proven.

    Args:
        name: Run id or its beginning, run directory, or checkpoint file.
        log_root: Root of the ledger.

    Raises:
        UserError: If nothing matches the name.
    """
    found = find_checkpoints([name], log_root)
    first = summarize_run(found[0].run).proven
    return next((c for c in found if first is not None and c.saved.path == first.path), found[-1])


def _of_file(path: Path) -> FoundCheckpoint:
    """Find the run that saved a file."""
    path = path.resolve()
    directory = next((parent for parent in path.parents if any(parent.glob("journal-*.jsonl*"))), None)
    if directory is None:
        raise UserError(
            f"no run of LedgerLab has saved {path}: train the task with scripts/train.py, or put the file back beside "
            "the journal of its run"
        )
    run = find_run(str(directory), directory)
    for checkpoint in (FoundCheckpoint(run, saved) for saved in run.checkpoints):
        if checkpoint.path == path:
            return checkpoint
    known = [saved.path for saved in run.checkpoints]
    raise UserError(f"{path} is not a checkpoint of run {run.declared.run_id}: {nearest(path.name, known)}")
