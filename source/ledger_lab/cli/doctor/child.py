"""Questions that are asked in a process of their own, because the answer may be a crash, or never come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_SOURCE = str(Path(__file__).resolve().parents[3])
"""Folder that contains the package ``ledger_lab``."""


@dataclass(frozen=True)
class Answer:
    """How a process ended."""

    status: int | None
    """Exit status; ``None`` if the process was not finished in time."""
    output: str
    """What it printed on both streams."""

    @property
    def last_line(self) -> str:
        """The last line that it printed that is not empty."""
        return next((line.strip() for line in reversed(self.output.splitlines()) if line.strip()), "no output")


class Child:
    """A Python process that works while other checks are made."""

    def __init__(self, *arguments: str) -> None:
        """Start it.

        Args:
            arguments: Arguments of Python.
        """
        self._output = os.memfd_create("output")  # needs no disk
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([_SOURCE, *_own_path()])}
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,
        )

    def answer(self, limit_s: float) -> Answer:
        """Wait for its end, and return its answer. A process that takes longer is killed.

        Args:
            limit_s: How long to wait [s].
        """
        status: int | None = None
        with suppress(subprocess.TimeoutExpired):
            status = self._process.wait(max(0.0, limit_s))
        self.close()
        with os.fdopen(self._output, "rb") as file:
            file.seek(0)
            return Answer(status, file.read().decode(errors="replace"))

    def close(self) -> None:
        """Kill the process and its children."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)


def _own_path() -> Sequence[str]:
    """Return the folders of ``PYTHONPATH``."""
    return [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
