"""Names that can be folders, and texts that are safe to print on a terminal."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ledger_lab.errors import UserError

_FOLDER = re.compile(r"\w[\w.+-]*")
_SCRIPT = re.compile(r"(?<![\w/])(?:\./isaaclab\.sh -p )?scripts/(\w+)\.py")


def names_a_folder(name: object) -> bool:
    """Tell whether a name can be the name of a folder, and is not a path."""
    return isinstance(name, str) and _FOLDER.fullmatch(name) is not None


def visible(text: str) -> str:
    """Return a text whose control characters are replaced by Python's escape sequences.

    With such characters, a text could clear the terminal, change the clipboard or reverse the order of letters.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def as_started(text: str) -> str:
    """Return a message that names commands as the user has started this one.

    Messages name the scripts of a checkout, such as ``./isaaclab.sh -p scripts/report.py``. If the user has started
    ``ledgerlab``, they become ``ledgerlab report``.

    Args:
        text: The message.
    """
    started_ledgerlab = Path(sys.argv[0]).parent.parts[-2:] == ("cli", "scripts")
    return _SCRIPT.sub(r"ledgerlab \1", text) if started_ledgerlab else text


def require_folder_name(what: str, name: object) -> None:
    """Refuse a name that can't be the name of a folder.

    Args:
        what: What the name is for, in the error message.
        name: The name.

    Raises:
        UserError: If it can't be the name of a folder.
    """
    if not names_a_folder(name):
        raise UserError(f"{what} {name!r}: must be a name of letters, digits, '_', '-', '+' and '.'")
