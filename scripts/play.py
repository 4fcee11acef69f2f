"""Play a checkpoint, and record it with --video."""

import sys

from ledger_lab.checkpoints.request import PlayRequest
from ledger_lab.commands.first_look import first_look
from ledger_lab.supervision.start import run_watched
from ledger_lab.terminal.script import imported_later

if __name__ == "__main__":
    first_look(PlayRequest, sys.argv[1:])  # before anything heavy is imported
    run_watched(imported_later("ledger_lab.checkpoints.play:play_run"))
