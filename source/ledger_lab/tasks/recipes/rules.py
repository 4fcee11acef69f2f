"""Rules for the values of recipe fields and library settings.

A rule returns the reason against a value, as the end of a sentence, or ``None``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ledger_lab.errors import nearest

type Rule = Callable[[Any], str | None]


def count(value: Any) -> str | None:  # noqa: ANN401 - whatever stands in a configuration
    """Accept whole numbers of at least 1."""
    return None if type(value) is int and value >= 1 else "must be a whole number of at least 1"


def count_or_zero(value: Any) -> str | None:  # noqa: ANN401
    """Accept whole numbers of at least 0."""
    return None if type(value) is int and value >= 0 else "must be a whole number of at least 0"


def finite(value: Any) -> str | None:  # noqa: ANN401
    """Accept finite numbers."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return None if is_number and math.isfinite(value) else "must be a finite number"


def positive(value: Any) -> str | None:  # noqa: ANN401
    """Accept finite numbers above 0."""
    return None if finite(value) is None and value > 0 else "must be positive, and finite"


def not_negative(value: Any) -> str | None:  # noqa: ANN401
    """Accept finite numbers of at least 0."""
    return None if finite(value) is None and value >= 0 else "must be a finite number of at least 0"


def share(value: Any) -> str | None:  # noqa: ANN401
    """Accept numbers from 0 to 1."""
    return None if finite(value) is None and 0 <= value <= 1 else "must lie between 0 and 1"


def widths(value: Any) -> str | None:  # noqa: ANN401
    """Accept lists of at least one layer width."""
    is_right = isinstance(value, list | tuple) and value and not any(map(count, value))
    return None if is_right else "must be a list of the layers' widths, each a whole number of at least 1"


def anything(_: Any) -> str | None:  # noqa: ANN401
    """Accept every value; another check covers it."""
    return None


def one_of(*known: str | None) -> Rule:
    """Return a rule that accepts some names.

    Args:
        known: The names; ``None`` among them also accepts a missing value.
    """
    names = ["null" if name is None else name for name in known if name != ""]
    return lambda value: None if value in known else nearest(value if isinstance(value, str) else "", names)


def or_none(rule: Rule) -> Rule:
    """Return a rule that also accepts ``None``."""
    return lambda value: None if value is None else rule(value)
