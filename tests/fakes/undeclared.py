"""``scripts/train.py`` with a fault: the first process is killed before it declares the run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

from ledger_lab.reports.terminal.surroundings import compile_forward_only
from ledger_lab.training.launch.inline import launch_processes
from ledger_lab.training.supervision.link import Link
from ledger_lab.training.supervision.start import run_supervised

_AHEAD_S = 3.0
"""How long other processes may run ahead [s]."""


def main(argv: Sequence[str], started_ns: int, link: Link) -> None:
    """Train."""
    compile_forward_only()
    from ledger_lab.training import run

    def killed(plan: object) -> None:
        time.sleep(_AHEAD_S)
        os.kill(os.getpid(), signal.SIGKILL)

    run.declaration = killed  # type: ignore[assignment]
    run.train_run(argv, started_ns, link)


if __name__ == "__main__":
    launch_processes()
    run_supervised(main)
