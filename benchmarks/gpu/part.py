"""A part of the GPU kit: one command in a process of its own, with a time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil

from benchmarks.comparison import ROOT
from ledger_lab.clusters.ray_job import ending_with_this_process
from ledger_lab.ledger import find_journals

Status = Literal["done", "failed", "timed out", "skipped"]
Figures = dict[str, Any]
"""Plain JSON values by name."""

GRACE_S = 12.0
"""Time that a part may take to end after SIGTERM [s]; then it is killed."""
_ABANDON_S = 5.0
"""Time to wait for a killed process, which a hanging driver can keep alive [s]."""
_TAIL = 2000
"""Characters of a program's output that an error shows."""
OUTPUT = "output.txt"
FIGURES = "figures.json"
"""File in the folder of a part, in which a program may leave its figures."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the kit. Its command runs in a folder of its own, which also holds what it writes."""

    name: str
    what: str
    """What it measures or checks, in a few words."""
    command: tuple[str, ...]
    """Arguments of Python; ``{folder}`` stands for the folder of the part."""
    read: Callable[[Path], Figures]
    """Reads figures from the folder, also of a part that failed or ran out of time."""
    limit_s: float
    """Longest time [s]."""
    least_s: float = 20.0
    """If less time than this is left, the part is skipped [s]."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Variables to add to the environment."""
    needs_device: bool = True
    """Whether the part makes no sense if the part ``device`` failed."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a part ended, and its figures."""

    status: Status
    what: str
    command: str | None = None
    """The command line; ``None`` if the part was skipped."""
    wall_s: float | None = None
    """Time of the process [s]."""
    exit_status: int | None = None
    """``None`` if the process did not end by itself."""
    result: Figures | None = None
    """Figures; ``None`` if there are none."""
    error: str | None = None
    """Why there is no result, or only a part of it."""


def run_part(part: Part, folder: Path, environ: Mapping[str, str], limit_s: float) -> Outcome:
    """Run a part to its end or its time limit, and read its figures.

    Nothing that the part does raises an error here.

    Args:
        part: The part.
        folder: A new folder for its files.
        environ: The environment of its process.
        limit_s: Time until the process is asked to end [s].
    """
    command = [sys.executable, *(argument.replace("{folder}", str(folder)) for argument in part.command)]
    started_s = time.monotonic()
    exit_status, errors = None, []
    try:
        folder.mkdir(parents=True)
        with (folder / OUTPUT).open("wb") as output:
            process = subprocess.Popen(
                [*ending_with_this_process(), *command],
                cwd=ROOT,
                env={**environ, **part.environ},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                exit_status = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                errors.append(f"not finished after {limit_s:.0f} s")
            finally:
                _end(process)
    except OSError as error:
        errors.append(f"cannot be started: {error}")
    wall_s = time.monotonic() - started_s
    if exit_status:
        errors.append(f"exit status {exit_status}: {_tail(folder / OUTPUT)}")
    result = None
    try:
        figures = part.read(folder)
        json.dumps(figures)  # raises here, and not while the figures of all parts are written
        result = figures or None
    except Exception as error:  # noqa: BLE001 - whatever a failed part leaves behind, the next part must run
        errors.append(f"no figures: {type(error).__name__}: {error}")
    timed_out = exit_status is None and bool(errors) and errors[0].startswith("not finished")
    return Outcome(
        status="timed out" if timed_out else "failed" if errors else "done",
        what=part.what,
        command=" ".join(["python", *part.command]),
        wall_s=round(wall_s, 2),
        exit_status=exit_status,
        result=result,
        error="; ".join(errors) or None,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all processes of its session: also workers of trainings, which lead groups of their own.

    If it has ended by itself, what it left behind is killed at once.
    """
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # a supervisor asks its workers
        _wait(process, GRACE_S)
    for pid in _session(process.pid):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    _wait(process, _ABANDON_S)


def _wait(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Wait until a process and its session have ended, or patience does.

    Args:
        process: The process that leads the session.
        patience_s: Longest time to wait [s].
    """
    until_s = time.monotonic() + patience_s
    while (process.poll() is None or _session(process.pid)) and time.monotonic() < until_s:
        time.sleep(0.05)


def _session(leader: int) -> list[int]:
    """Return the ids of the processes of a session that run.

    Args:
        leader: Id of the process that leads it.
    """
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def _tail(output: Path) -> str:
    """Return the last characters that a program printed."""
    return output.read_text(encoding="utf-8", errors="replace")[-_TAIL:].strip()


def read_figures(folder: Path) -> Figures:
    """Return the figures that a program left in the file :data:`FIGURES`.

    Args:
        folder: Folder of the part.
    """
    found: Figures = json.loads((folder / FIGURES).read_text(encoding="utf-8"))
    return found


def keep_journals(folder: Path, into: Path) -> None:
    """Copy the journals of the trainings of a part, and what a part printed, but no checkpoints.

    Args:
        folder: Folder of the part.
        into: Folder of the same part that remains.
    """
    kept = [*find_journals(folder), *folder.rglob("console*.log"), folder / OUTPUT]
    for path in (path for path in kept if path.is_file()):
        target = into / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_bytes()
        target.write_bytes(text if path.suffix == ".jsonl" else text[-_MOST_BYTES:])


_MOST_BYTES = 100_000
"""Bytes of a log that are kept."""
