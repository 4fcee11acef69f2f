"""Search for the runs that a user names."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import LedgerDamageError, Run, read_ledger
from ledger_lab.names import as_started, visible


def require_ledger(log_root: Path) -> None:
    """Check that there is a folder that can be a ledger.

    Args:
        log_root: Root of the ledger.

    Raises:
        UserError: If there is none, or the file server does not answer.
    """
    try:
        there = log_root.is_dir()
    except OSError as error:
        raise UserError(f"cannot read {log_root}: {error.strerror}: correct this, and try again") from error
    if not there:
        raise UserError(f"no ledger at {log_root}: train first, or name the root of another ledger")


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
    """Read all runs under a root, which need not exist. Damaged runs are left out, and named on standard error.

    Args:
        root: Root of a ledger.

    Raises:
        UserError: If a journal or a directory can't be read.
    """
    ledger = read_ledger(root.resolve(), tolerate_damage=True)
    tell_damage(ledger.damage)
    return ledger.runs


def tell_damage(damage: Iterable[LedgerDamageError]) -> None:
    """Print on standard error which runs of a ledger are damaged, and therefore left out."""
    for each in damage:
        left_out = f"left out: {each} (scripts/verify_ledger.py checks the whole ledger)"
        print(visible(as_started(left_out)), file=sys.stderr)


@contextmanager
def telling_damage() -> Iterator[None]:
    """Within the context, turn damage of a journal into an error for the user, which names scripts/verify_ledger.py."""
    try:
        yield
    except LedgerDamageError as error:
        raise UserError(f"damaged journal: {error} (scripts/verify_ledger.py checks the whole ledger)") from error


def _run_in(directory: Path) -> Run:
    """Return the run whose journals are in a directory."""
    with telling_damage():
        runs = read_ledger(directory.resolve()).runs
    if len(runs) != 1:
        raise UserError(f"{directory} holds {len(runs)} runs: name one of their directories or ids")
    return runs[0]


def _run_with_id(prefix: str, log_root: Path) -> Run:
    """Return the only run whose id starts with this text."""
    runs = read_runs(log_root)
    matching = [run for run in runs if run.run_id.startswith(prefix)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UserError(f"{prefix!r} begins the ids of {len(matching)} runs: name more of one")
    known = nearest(prefix, [run.run_id for run in runs])
    raise UserError(f"no checkpoint, run directory or run id {prefix!r} (run ids under {log_root}: {known})")
