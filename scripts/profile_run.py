"""Measure what a task's training iteration consists of, piece by piece."""

import sys

from ledger_lab.commands.first_look import first_look
from ledger_lab.profiling.request import ProfileRequest, profile_parser
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    # before anything heavy is imported
    first_look(profile_parser, sys.argv[1:], ProfileRequest)
    from ledger_lab.profiling.run import profile_run

    run_script(profile_run)
