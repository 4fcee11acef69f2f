"""Shared by the benchmarks: runs programs to their end, and writes findings."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
"""The source tree."""


def run_python(
    arguments: Sequence[str], what: str, cwd: Path | None = None, environ: Mapping[str, str] | None = None
) -> str:
    """Run Python in a new process, and wait for its end.

    Args:
        arguments: Its arguments; the first may come from :func:`script`.
        what: Name of the program, for the error message.
        cwd: Its working directory.
        environ: Its environment variables (default: those of this process).

    Returns:
        Its output.

    Raises:
        RuntimeError: If it fails.
    """
    finished = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environ, capture_output=True, text=True, check=False
    )
    if finished.returncode != 0:
        raise RuntimeError(f"{what} failed: {finished.stdout[-2000:]}{finished.stderr[-2000:]}")
    return finished.stdout


def script(name: str) -> str:
    """Return the path of one of the project's scripts."""
    return str(ROOT / "scripts" / name)


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the option that names the file for :func:`write_findings`.

    Args:
        parser: Command line of the benchmark.
        what: Description of the content.
    """
    parser.add_argument(
        "--json", type=writable_file, help=f"Also write {what}, the command and the package versions to this JSON file."
    )


def writable_file(text: str) -> Path:
    """Return a path; refuse a path that cannot be written, before the work begins."""
    path = Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{path} can't be a file: name one in a directory that exists")
    return path


def require_tasks(tasks: Sequence[str]) -> None:
    """Refuse unknown tasks, before a simulation starts.

    Args:
        tasks: Gymnasium ids.

    Raises:
        UserError: If a task is unknown, or has no configuration for RSL-RL.
    """
    from ledger_lab.tasks.registry import require_task

    for task in tasks:
        require_task(task, "rsl_rl")


def without(fields: Mapping[str, Any], *names: str) -> str:
    """Return fields of a panel's identity as text, to tell whether two scores differ in anything else.

    Args:
        fields: The fields.
        names: Fields to leave out, also where they are parts of another field, as ``scene`` of ``environment_sha256``.
    """
    rest = {
        name: {part: each for part, each in value.items() if part not in names} if isinstance(value, dict) else value
        for name, value in fields.items()
        if name not in names
    }
    return json.dumps(rest, sort_keys=True)
