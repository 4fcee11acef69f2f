"""Play a checkpoint, and record it with --video."""

import sys

from ledger_lab.checkpoints.request import play_parser
from ledger_lab.terminal.flags import answer_help
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    answer_help(play_parser, sys.argv[1:], launcher=True)  # before anything heavy is imported
    from ledger_lab.checkpoints.play import play_run

    run_script(play_run)
