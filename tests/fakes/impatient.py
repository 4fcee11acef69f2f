"""``train.py`` for which a saved state is too old at once, unless the command line says how often to save."""

from __future__ import annotations

from collections.abc import Sequence

from ledger_lab.reports.terminal.surroundings import compile_forward_only
from ledger_lab.training.launch.inline import launch_processes
from ledger_lab.training.supervision.link import Link
from ledger_lab.training.supervision.start import run_supervised


def main(argv: Sequence[str], started_ns: int, link: Link) -> None:
    """Train."""
    compile_forward_only()
    from ledger_lab.training import state as training_state
    from ledger_lab.training.run import train_run

    training_state.STATE_AT_LATEST_S = 0.0
    train_run(argv, started_ns, link)


if __name__ == "__main__":
    launch_processes()
    run_supervised(main)
