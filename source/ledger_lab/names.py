"""Names that become folders, and names of others as a terminal may show them."""

from __future__ import annotations

import re

from ledger_lab.errors import UserError

_FOLDER = re.compile(r"\w[\w.+-]*")


def names_a_folder(name: object) -> bool:
    """Tell whether a name can be that of one folder, and of none elsewhere."""
    return isinstance(name, str) and _FOLDER.fullmatch(name) is not None


def visible(text: str) -> str:
    """Return a text with its control characters shown: each as the escape sequence that Python writes for it.

    A terminal would obey them: clear itself, change its title or the clipboard, reverse the order of letters.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def require_folder_name(what: str, name: object) -> None:
    """Refuse what can't be the name of a folder.

    Args:
        what: What the user calls it.
        name: The name.

    Raises:
        UserError: If it is no such name.
    """
    if not names_a_folder(name):
        raise UserError(f"{what} {name!r}: must be a name of letters, digits, '_', '-', '+' and '.'")
