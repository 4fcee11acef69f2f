"""Waits in tests for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    what: Callable[[], bool], said: str, limit_s: float, every_s: float = 0.5, shown: Callable[[], str] = str
) -> None:
    """Wait until something is true; if it does not become true, show why."""
    deadline = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {said}\n{shown()[-4000:]}"
        time.sleep(every_s)
