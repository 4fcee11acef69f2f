"""Declarations of cohorts: the number of runs, declared once and before the first run."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.files import make_folder, sync_folder
from ledger_lab.ledger.content import read_journal
from ledger_lab.ledger.declarations import CohortDeclared
from ledger_lab.ledger.journal import Journal
from ledger_lab.ledger.listing import LedgerDamageError
from ledger_lab.names import names_a_folder

_LONGEST_NAME = 100


def cohort_journal(log_root: Path, name: str) -> Path:
    """Return the path of the journal that declares a cohort."""
    return log_root / "cohorts" / name / "journal-declaration.jsonl"


def require_cohort_name(name: str) -> None:
    """Refuse a cohort name that cannot be the name of a folder.

    Args:
        name: Value of ``--cohort``.

    Raises:
        UserError: If the name is refused.
    """
    if not names_a_folder(name) or len(name.encode()) > _LONGEST_NAME:
        raise UserError(
            f"--cohort {name!r}: must be a name of letters, digits, '_', '-', '+' and '.', not longer than "
            f"{_LONGEST_NAME} bytes"
        )


def declare_cohort(log_root: Path, name: str, size: int) -> None:
    """Declare the number of runs of a cohort. The first declaration is binding. Later declarations may only repeat it.

    The declaration appears as a whole under its final name, through a hard link that only one process can make. So any
    number of processes may declare the same cohort at the same time, without a lock.

    Args:
        log_root: Root of the ledger.
        name: The cohort.
        size: Its number of runs.

    Raises:
        UserError: If the name or the size is invalid, the cohort was declared with another size, or nothing can be
            written there.
    """
    require_cohort_name(name)
    try:
        row = CohortDeclared(cohort=name, size=size)
    except ValueError as error:
        raise UserError(f"--cohort_size {size}: must be a whole number of at least 1") from error
    path = cohort_journal(log_root, name)
    try:
        log_root.mkdir(parents=True, exist_ok=True)
        make_folder(path.parent, root=log_root)
        if not path.exists():
            _publish(row, path)
    except OSError as error:
        raise UserError(
            f"--log_root {log_root}: cannot declare cohort {name} in {path}: {error.strerror or error}"
        ) from error
    declared = _declaration(path)
    if declared.cohort != name:
        raise UserError(f"{path} declares cohort {declared.cohort}, not {name}: choose another name with --cohort")
    if declared.size != size:
        raise UserError(
            f"--cohort_size {size}: cohort {name} was declared with {declared.size} runs ({path}): use this number, "
            "leave --cohort_size out, or choose another name with --cohort"
        )


def _publish(row: CohortDeclared, path: Path) -> None:
    """Write the declaration under a temporary name, then try to link it to the final name."""
    draft = path.with_name(f".declaration-{secrets.token_hex(8)}")
    try:
        with Journal(draft) as journal:
            journal.append(row)
        try:
            os.link(draft, path)
        except FileExistsError:
            return  # another process was first
        sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def _declaration(path: Path) -> CohortDeclared:
    """Read a declaration."""
    try:
        declared = read_journal(path).one(CohortDeclared)
    except (LedgerDamageError, OSError) as error:
        raise UserError(f"damaged journal: {error} (scripts/verify_ledger.py checks the whole ledger)") from error
    if declared is None:
        raise UserError(f"{path} declares no cohort: choose another name with --cohort")
    return declared
