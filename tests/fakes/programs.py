"""Stand-ins for the command-line programs of schedulers that can't run here."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(folder: Path, name: str, answers: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program on the ``PATH`` that answers as a test says.

    Args:
        folder: Where the program and its notes go.
        name: Name of the program.
        answers: Commands of bash by a part of the arguments; the first that fits answers.
        monkeypatch: The fixture of the test.

    Returns:
        File with the arguments of each call, one call a line.
    """
    programs, notes = folder / "bin", folder / f"{name}.calls"
    programs.mkdir(exist_ok=True)
    cases = "".join(f"*{shlex.quote(pattern)}*)\n{answer}\n;;\n" for pattern, answer in answers.items())
    (programs / name).write_text(f'#!/bin/bash\necho "$*" >>{notes}\ncase "$*" in\n{cases}esac\n')
    (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return notes


def printing(path: Path) -> str:
    """Return a command of bash that prints a file."""
    return f"cat {path}"


def failing(message: str, status: int = 1) -> str:
    """Return commands of bash that fail with a message."""
    return f"echo {shlex.quote(message)} >&2; exit {status}"
