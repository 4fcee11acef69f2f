"""Trains several tasks side by side for two iterations, so that their kernels are compiled before they are timed.

A process compiles one kernel after the other, which takes minutes for a walking robot. Processes side by side use
several cores, and what one of them has compiled is in the cache for all.

``python -m benchmarks.gpu.compilation FILE FOLDER DEVICE TASK...`` writes what it found to FILE; its exit status is 0
if all trainings were completed.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.comparison import script

_LOOK_S = 0.2
"""Time between two looks at the trainings [s]."""


def main(arguments: Sequence[str]) -> int:
    """Train tasks side by side, with held-out slots, and write how long each took.

    Args:
        arguments: File to write, folder for the ledgers, device, tasks.

    Returns:
        0 if all trainings were completed, else 1.
    """
    path, folder, device, *tasks = arguments
    # SIGTERM also reaches the trainings. They end within their grace period, and then this process ends, too.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    began_s = time.monotonic()
    running = {task: _start(task, Path(folder) / task, device) for task in tasks}
    found: dict[str, dict[str, Any]] = {}
    _write(Path(path), found, running)
    while running:
        time.sleep(_LOOK_S)
        for task in [task for task, process in running.items() if process.poll() is not None]:
            exit_status = running.pop(task).returncode
            found[task] = {"wall_s": round(time.monotonic() - began_s, 1), "exit_status": exit_status}
            _write(Path(path), found, running)
    return int(any(each["exit_status"] for each in found.values()))


def _start(task: str, folder: Path, device: str) -> subprocess.Popen[bytes]:
    """Start a training that does little more than compile."""
    folder.mkdir(parents=True)
    arguments = ("--task", task, "--device", device, "--seed", "1", "--max_iterations", "2", "--no_stop_at_target")
    with (folder / "console-start.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, script("train.py"), *arguments, "--grace_s", "8", "--log_root", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _write(path: Path, found: Mapping[str, dict[str, Any]], running: Mapping[str, Any]) -> None:
    """Write what is known so far."""
    path.write_text(json.dumps({"trainings": found, "running": [*running]}, indent=2), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
