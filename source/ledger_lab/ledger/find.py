"""Search for the runs that a user names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import LedgerDamageError, Run, read_ledger


def find_run(name: str, log_root: Path) -> Run:
    """Find a run.

    Args:
        name: Run id or its beginning, or run directory.
        log_root: Root of the ledger, where run ids are looked up.

    Raises:
        UserError: If no run or several runs match the name.
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
    """Turn damage of a journal into an error for the user that says how to look for more."""
    try:
        yield
    except LedgerDamageError as error:
        raise UserError(f"damaged journal: {error} (scripts/verify_ledger.py checks the whole ledger)") from error


def _run_in(directory: Path) -> Run:
    """Return the run whose journals are in a directory."""
    runs = read_runs(directory)
    if len(runs) != 1:
        raise UserError(f"{directory} holds {len(runs)} runs: name one of their directories or ids")
    return runs[0]


def _run_with_id(prefix: str, log_root: Path) -> Run:
    """Return the only run whose id starts with this text."""
    runs = read_runs(log_root)
    matching = [run for run in runs if run.declared.run_id.startswith(prefix)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UserError(f"{prefix!r} begins the ids of {len(matching)} runs: name more of one")
    known = nearest(prefix, [run.declared.run_id for run in runs])
    raise UserError(f"no checkpoint, run directory or run id {prefix!r} (run ids under {log_root}: {known})")
