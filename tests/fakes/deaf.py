"""A program whose libraries take signals over, as viewers do, and never end on one.

Usage: ``python tests/fakes/deaf.py [STATUS]``.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence

from ledger_lab.reports.terminal.exit_status import ENDING
from ledger_lab.training.supervision.start import run_watched


def main(argv: Sequence[str]) -> int:
    """Hear nothing; with a number, end with that status."""
    if argv:
        return int(argv[0])
    for signum in ENDING:
        signal.signal(signum, signal.SIG_IGN)
    print("working", flush=True)
    while True:
        time.sleep(0.05)


if __name__ == "__main__":
    run_watched(main)
    sys.exit("never reached")
