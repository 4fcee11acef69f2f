"""What the value of a recipe's field may be, and of a library's setting for it.

A rule returns what speaks against a value, as the end of a sentence, or ``None``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ledger_lab.errors import nearest

type Rule = Callable[[Any], str | None]


def count(value: Any) -> str | None:  # noqa: ANN401 - whatever stands in a configuration
    """Take whole numbers of at least 1."""
    return None if type(value) is int and value >= 1 else "must be a whole number of at least 1"


def finite(value: Any) -> str | None:  # noqa: ANN401
    """Take finite numbers."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return None if is_number and math.isfinite(value) else "must be a finite number"


def positive(value: Any) -> str | None:  # noqa: ANN401
    """Take finite numbers above 0."""
    return None if finite(value) is None and value > 0 else "must be positive, and finite"


def not_negative(value: Any) -> str | None:  # noqa: ANN401
    """Take finite numbers of at least 0."""
    return None if finite(value) is None and value >= 0 else "must be a finite number of at least 0"


def share(value: Any) -> str | None:  # noqa: ANN401
    """Take numbers from 0 to 1."""
    return None if finite(value) is None and 0 <= value <= 1 else "must lie between 0 and 1"


def widths(value: Any) -> str | None:  # noqa: ANN401
    """Take lists of at least one width of a layer."""
    is_right = isinstance(value, list | tuple) and value and not any(map(count, value))
    return None if is_right else "must be a list of the layers' widths, each a whole number of at least 1"


def anything(_: Any) -> str | None:  # noqa: ANN401
    """Take every value: something else judges it."""
    return None


def one_of(*known: str | None) -> Rule:
    """Return the rule that takes names.

    Args:
        known: The names; with ``None``, no name at all, too.
    """
    names = ["null" if name is None else name for name in known if name != ""]
    return lambda value: None if value in known else nearest(value if isinstance(value, str) else "", names)


def or_none(rule: Rule) -> Rule:
    """Return the rule that takes no value, too."""
    return lambda value: None if value is None else rule(value)
