"""Files that declare studies and searches: where they are, and how they are read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec

from ledger_lab.documents import read_toml
from ledger_lab.errors import UserError, nearest
from ledger_lab.names import names_a_folder
from ledger_lab.paths import config_root

type Positive = Annotated[float, msgspec.Meta(gt=0, lt=1e300)]
"""A finite number above 0."""


def find_declared(name: str, folder: str) -> Path:
    """Return the path of a file.

    Args:
        name: Name of a file in a folder of ``config``, without its suffix, or path of a ``.toml`` file.
        folder: ``studies`` or ``searches``.

    Raises:
        UserError: If there is no such file.
    """
    known = config_root() / folder
    path = Path(os.path.expanduser(name)) if name.endswith(".toml") else known / f"{name}.toml"
    if not path.is_file():
        names = sorted(each.stem for each in known.glob("*.toml"))
        raise UserError(f"{name!r}: name a .toml file, or a file in config/{folder}: {nearest(name, names)}")
    return path


def read_declared[Declared](path: Path, kind: type[Declared]) -> Declared:
    """Read a file, and check it against the fields of a class.

    Args:
        path: The TOML file. Its name without the suffix begins the names of cohorts.
        kind: The class.

    Raises:
        UserError: If it can't be read, or is wrong.
    """
    try:
        found = msgspec.convert(read_toml(path), kind)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} can't be read: {error}") from error
    if not names_a_folder(path.stem):
        raise UserError(f"{path}: the file's name begins the names of cohorts: use letters, digits, '_', '-', '+', '.'")
    return found
