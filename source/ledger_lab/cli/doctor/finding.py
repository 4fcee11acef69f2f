"""What a check of the machine found."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]
"""``warn``: a training can run, but something is slower, missing or at risk. ``fail``: trainings do not work."""


@dataclass(frozen=True)
class Finding:
    """What a check found."""

    level: Level
    text: str
    """The fact, in one line."""
    way_out: str | None = None
    """What to do; ``None`` if all is well."""


def ok(text: str) -> Finding:
    """Return a finding without anything to do."""
    return Finding("ok", text)


def warn(text: str, way_out: str) -> Finding:
    """Return a finding that does not prevent trainings."""
    return Finding("warn", text, way_out)


def fail(text: str, way_out: str) -> Finding:
    """Return a finding that prevents trainings."""
    return Finding("fail", text, way_out)


Check = Callable[[], Finding]


def within(check: Check, limit_s: float) -> Finding:
    """Run a check with a time limit; an error or a time-out becomes a finding.

    Args:
        check: The check.
        limit_s: How long to wait for it, for example if a file server does not answer [s].
    """
    found: list[Finding] = []

    def carry_out() -> None:
        try:
            found.append(check())
        except Exception as error:  # noqa: BLE001 - a check that breaks must not stop the others
            text = f"cannot be checked: {type(error).__name__}: {error}"
            found.append(fail(" ".join(text.split()), "see the other lines; the cause may be a missing package"))

    thread = threading.Thread(target=carry_out, daemon=True)  # a hanging one must not keep the program alive
    thread.start()
    thread.join(limit_s)
    if found:
        return found[0]
    return fail(f"no answer in {limit_s:.0f} s", "find out which disk, file server or driver does not answer (dmesg)")
