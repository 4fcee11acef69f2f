"""``train.py`` whose time is used up in an iteration, or with iteration 0 by the start-up.

Usage: ``python tests/fakes/limited.py ARGUMENTS … ITERATION``
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ledger_lab.reports.terminal.script import compile_forward_only
from ledger_lab.training.launch.start import launch_processes
from ledger_lab.training.supervision.attempt import Link
from ledger_lab.training.supervision.start import run_supervised


def main(argv: Sequence[str], started_ns: int, link: Link) -> None:
    """Train until the time is used up."""
    compile_forward_only()
    from ledger_lab.training.judge import Judge
    from ledger_lab.training.loop import TrainingLoop
    from ledger_lab.training.run import train_run

    *arguments, at = argv

    class Limited(TrainingLoop):
        """Loses its time."""

        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            self._lose(0)

        def on_iteration(self, iterations: int, figures: Mapping[str, float]) -> bool:
            """Lose the time when it is due."""
            self._lose(iterations)
            return super().on_iteration(iterations, figures)

        def _lose(self, iterations: int) -> None:
            if iterations == int(at) and self._plan.world.first:
                self.limit = replace(self.limit, spent_ns=10**15)

    train_run(arguments, started_ns, link, Judge, Limited)


if __name__ == "__main__":
    launch_processes()
    run_supervised(main)
