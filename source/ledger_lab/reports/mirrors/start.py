"""Starts the mirrors of a run as separate processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from ledger_lab.files import appended_file
from ledger_lab.reports.mirrors.sink import require_sink


def start_mirrors(run_dir: Path, names: Iterable[str]) -> None:
    """Start mirrors of a run as independent processes.

    Each is detached into a session of its own, so that neither Ctrl-C nor the end of the run's processes ends it, and
    its processor time is not counted for the run. Where the system ends all processes with the main one, as in a
    container, it may miss the last rows. Its output goes to ``mirror-<name>.log`` in the run's directory.

    Args:
        run_dir: The run's directory, with a journal that declares the run.
        names: Destinations.
    """
    for name in names:
        with appended_file(run_dir / f"mirror-{name}.log") as log:
            command = [sys.executable, "-m", "ledger_lab.reports.mirrors.program", str(run_dir), "--to", name]
            subprocess.run(
                ["setsid", "--fork", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
                start_new_session=True,  # setsid detaches only after a fork; a signal could arrive before
            )


def require_mirrors(names: Iterable[str]) -> None:
    """Check before a training that its mirrors can be started.

    Args:
        names: Destinations.

    Raises:
        UserError: If a destination doesn't exist, or its package is missing.
    """
    for name in names:
        require_sink(name)
