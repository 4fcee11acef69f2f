"""What the benchmarks share: running programs to their end, and writing down what was found."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def run_python(arguments: Sequence[str], what: str, cwd: Path | None = None) -> str:
    """Run Python in a process of its own, to its end.

    Args:
        arguments: Its arguments, as :func:`script` begins them.
        what: What is run, for the message of a failure.
        cwd: Its working directory.

    Returns:
        What it printed.

    Raises:
        RuntimeError: If it fails.
    """
    finished = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise RuntimeError(f"{what} failed: {finished.stdout[-2000:]}{finished.stderr[-2000:]}")
    return finished.stdout


def script(name: str) -> str:
    """Return the path of one of the project's scripts."""
    return str(Path(__file__).parents[1] / "scripts" / name)


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    """Let a benchmark take the file that :func:`write_findings` writes to.

    Args:
        parser: Its command line.
        what: What is written.
    """
    parser.add_argument("--json", type=_file, help=f"Write {what} to this file, too, with command and versions.")


def _file(text: str) -> Path:
    """Return a path that can be written to in the end; better refused before the work than after it."""
    path = Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{path} can't be a file: name one in a directory that exists")
    return path


def differences(path: str, ours: Any, theirs: Any) -> list[str]:  # noqa: ANN401 - nested plain values
    """Return an override for every value of a configuration that differs in another one."""
    if isinstance(ours, dict):
        return [line for key in theirs for line in differences(f"{path}.{key}", ours.get(key), theirs[key])]
    return [] if ours == theirs else [f"{path}={json.dumps(theirs)}"]
