"""Durations on the command line."""

from __future__ import annotations

import argparse
import math
import re
from contextlib import suppress
from typing import Final

_UNITS: Final = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|min|m|h|d)")
_MOST_S: Final = 1e9


def parse_duration(text: str) -> float:
    """Read a duration such as ``90m``, ``2h`` or ``1h30m``.

    Args:
        text: Numbers, each with its unit: ``s``, ``m`` or ``min``, ``h``, ``d``.

    Returns:
        The duration [s].

    Raises:
        ArgumentTypeError: If it is something else, or not more than 0.
    """
    parts = _PART.findall(text) if not _PART.sub("", text) else []
    seconds = math.fsum(float(number) * _UNITS[unit] for number, unit in parts)
    if not 0 < seconds <= _MOST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write for example 90m, 2h or 1h30m")
    return seconds


def parse_period(text: str) -> float:
    """Read a number of seconds, at least 1 and at most 1e9: no program can wait much longer.

    Args:
        text: The number.

    Returns:
        The period [s].

    Raises:
        ArgumentTypeError: If it is something else.
    """
    with suppress(ValueError):
        if 1 <= (seconds := float(text)) <= _MOST_S:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r}: give at least 1 s, and at most {_MOST_S:g} s")
