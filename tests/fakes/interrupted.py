"""``train.py`` that receives a signal at the end of an iteration, before its state is saved.

Of several processes, their launcher gets it. Usage: ``python tests/fakes/interrupted.py ARGUMENTS … ITERATION:SIGNAL``
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import psutil

from ledger_lab.reports.terminal.script import compile_forward_only
from ledger_lab.training.launch.start import launch_processes
from ledger_lab.training.supervision.attempt import Link
from ledger_lab.training.supervision.start import run_supervised


def main(argv: Sequence[str], started_ns: int, link: Link) -> None:
    """Train until the signal comes."""
    compile_forward_only()
    from ledger_lab.training.judge import Judge, Judged
    from ledger_lab.training.run import train_run

    *arguments, when = argv
    at, _, name = when.partition(":")

    class Interrupted(Judge):
        """Judges, and sends the signal."""

        def after_iteration(self, iterations: int) -> list[Judged]:
            """Send it when its time has come."""
            found = super().after_iteration(iterations)
            if iterations == int(at) and self._plan.world.first:
                supervisor = psutil.Process(os.getppid())
                whom = os.getpid() if self._plan.world.size == 1 else supervisor.ppid()
                os.kill(whom, signal.Signals[name])
            return found

    train_run(arguments, started_ns, link, Interrupted)


if __name__ == "__main__":
    launch_processes()
    run_supervised(main)
