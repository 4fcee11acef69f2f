"""The RL libraries that LedgerLab trains with. A new one is a folder, and a line here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ledger_lab.errors import UserError, nearest

if TYPE_CHECKING:
    from ledger_lab.recipes.dialect import Dialect


@dataclass(frozen=True)
class Library:
    """Where to find what is particular to a library."""

    folder: str
    """Dotted name of its package, whose module ``dialect`` has a ``DIALECT`` (see
    :class:`~ledger_lab.recipes.dialect.Dialect`) and whose module ``adapter`` has an ``ADAPTER`` (see
    :class:`ledger_lab.runners.adapter.Adapter`). Both are imported on demand; only the adapter needs the library."""
    distribution: str
    """Installed package whose version runs record."""


LIBRARIES = {
    "rsl_rl": Library("ledger_lab.runners.rsl_rl", "rsl-rl-lib"),
    "rl_games": Library("ledger_lab.runners.rl_games", "rl-games"),
    "skrl": Library("ledger_lab.runners.skrl", "skrl"),
}
"""All libraries by their names on the command line, in the order of their columns in the documentation."""


def require_library(library: str) -> None:
    """Refuse an unknown library.

    Args:
        library: Its name.

    Raises:
        UserError: If there is none of this name.
    """
    if library not in LIBRARIES:
        raise UserError(f"unknown library {library!r}: {nearest(library, LIBRARIES)}")


def dialect_of(library: str) -> Dialect:
    """Return the dialect of a library: where it keeps the fields of a recipe.

    Args:
        library: Name on the command line.
    """
    dialect: Dialect = importlib.import_module(f"{LIBRARIES[library].folder}.dialect").DIALECT
    return dialect


def dialects() -> list[Dialect]:
    """Return the dialects of all libraries."""
    return [dialect_of(library) for library in LIBRARIES]
