"""Errors that a user can cause, told in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A request that cannot be carried out as given.

    The message is one line that names the thing and the way out. Scripts print it without a traceback and exit with
    status 2.
    """


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says; its type's name where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest what the user may have meant.

    Args:
        name: The name that was not found.
        known: All names that exist.

    Returns:
        ``"did you mean 'a' or 'b'?"`` when something is close, otherwise the list of all known names.
    """
    names = sorted(set(known))
    folded = {candidate.casefold(): candidate for candidate in names}
    close = [folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)]
    if close:
        return "did you mean " + " or ".join(repr(candidate) for candidate in close) + "?"
    return "known: " + (", ".join(names) if names else "none")
