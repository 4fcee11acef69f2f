"""Finding runs and checkpoints that the user names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import CheckpointSaved, LedgerDamageError, Run, read_ledger
from ledger_lab.reports import summarize_run


@dataclass(frozen=True)
class FoundCheckpoint:
    """A checkpoint, and the run that saved it."""

    run: Run
    saved: CheckpointSaved


def find_checkpoints(names: Sequence[str], log_root: Path) -> list[FoundCheckpoint]:
    """Find every checkpoint that is named, or that belongs to a named run.

    Args:
        names: Run ids or their beginnings, run directories, checkpoint files.
        log_root: Root of the ledger, where run ids are looked up.

    Returns:
        The checkpoints, each once, in the order they are named.

    Raises:
        UserError: If a name stands for nothing, or for more than one run.
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
                raise UserError(f"run {run.declared.run_id} has saved no checkpoint")
        for checkpoint in checkpoints:
            found[checkpoint.run.declared.run_id, checkpoint.saved.path] = checkpoint
    return list(found.values())


def find_run(name: str, log_root: Path) -> Run:
    """Find a run.

    Args:
        name: Run id or its beginning, or run directory.
        log_root: Root of the ledger, where run ids are looked up.

    Raises:
        UserError: If the name stands for nothing, or for more than one run.
    """
    path = Path(name)
    if path.is_file():
        raise UserError(f"{name} is a file: name a run, by its id or its directory")
    return _run_in(path) if path.is_dir() else _run_with_id(name, log_root)


def read_runs(root: Path) -> tuple[Run, ...]:
    """Read all runs under a root, which need not exist.

    Args:
        root: Root of a ledger.

    Raises:
        UserError: If a journal is damaged.
    """
    with telling_damage():
        return read_ledger(root.resolve()).runs


@contextmanager
def telling_damage() -> Iterator[None]:
    """Tell the user of a damaged journal, and how to look for others."""
    try:
        yield
    except LedgerDamageError as error:
        raise UserError(f"damaged journal: {error} (scripts/verify_ledger.py checks the whole ledger)") from error


def best_checkpoint(name: str, log_root: Path) -> FoundCheckpoint:
    """Find one checkpoint to look at: of a run, the one that was confirmed to reach the target, else the last.

    Args:
        name: Run id or its beginning, run directory, or checkpoint file.
        log_root: Root of the ledger.

    Raises:
        UserError: If the name stands for nothing.
    """
    found = find_checkpoints([name], log_root)
    first = summarize_run(found[0].run).confirmed
    return next((c for c in found if first is not None and c.saved.path == first.path), found[-1])


def _of_file(path: Path) -> FoundCheckpoint:
    """Find the run that saved a file."""
    path = path.resolve()
    directory = next((parent for parent in path.parents if any(parent.glob("journal-*.jsonl"))), None)
    if directory is None:
        raise UserError(f"checkpoint {path} lies in no run's directory: it needs the journal of the run that saved it")
    run = _run_in(directory)
    for saved in run.checkpoints:
        if run.directory / saved.path == path:
            return FoundCheckpoint(run, saved)
    raise UserError(f"{path} is no checkpoint of run {run.declared.run_id}: {nearest(path.name, _names(run))}")


def _run_in(directory: Path) -> Run:
    """Return the one run whose journals lie in a directory."""
    runs = read_runs(directory)
    if len(runs) != 1:
        raise UserError(f"{directory} holds {len(runs)} runs: name one of their directories or ids")
    return runs[0]


def _run_with_id(prefix: str, log_root: Path) -> Run:
    """Return the one run whose id begins like this."""
    runs = read_runs(log_root)
    matching = [run for run in runs if run.declared.run_id.startswith(prefix)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UserError(f"{prefix!r} begins the ids of {len(matching)} runs: name more of one")
    known = nearest(prefix, [run.declared.run_id for run in runs])
    raise UserError(f"no checkpoint, run directory or run id {prefix!r} (run ids under {log_root}: {known})")


def _names(run: Run) -> list[str]:
    """Return the names of a run's checkpoints."""
    return [saved.path for saved in run.checkpoints]
