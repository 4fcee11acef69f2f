"""Training that pauses while its policies are judged, for comparison in ``python -m benchmarks held_out``.

Run as a module, it accepts the command line of ``scripts/train.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger_lab.training.supervision.attempt import Link
from ledger_lab.training.supervision.start import run_supervised


def main(argv: Sequence[str], started_ns: int, link: Link) -> None:
    """Train, and pause training until each panel is over."""
    from ledger_lab.training.judge import Judge, Judged
    from ledger_lab.training.run import train_run

    class PausingJudge(Judge):
        """Scores the policy of an iteration before the next iteration begins."""

        def after_iteration(self, iterations: int) -> list[Judged]:
            """Judge at the cadence of the run."""
            found = super().after_iteration(iterations)
            return found if self._group.all(self._slots.idle) else [*found, *self.finish(lambda: None)]

    train_run(argv, started_ns, link, PausingJudge)


if __name__ == "__main__":
    run_supervised(main)
