"""Play a checkpoint, and record it with --video."""

import sys

from ledger_lab.cli.first_look import first_look
from ledger_lab.reports.terminal.script import imported_later
from ledger_lab.training.checkpoints.request import PlayRequest
from ledger_lab.training.supervision.start import run_watched

if __name__ == "__main__":
    first_look(PlayRequest, sys.argv[1:])  # before anything heavy is imported
    run_watched(imported_later("ledger_lab.training.checkpoints.play:play_run"))
