"""Play a checkpoint, and record it with --video."""

import sys

from ledger_lab.checkpoints.request import PlayRequest, play_parser
from ledger_lab.checkpoints.viewer import require_viewer
from ledger_lab.commands.first_look import first_look
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    # before anything heavy is imported
    first_look(play_parser, sys.argv[1:], PlayRequest, require_viewer)
    from ledger_lab.checkpoints.play import play_run

    run_script(play_run)
