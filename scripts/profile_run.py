"""Measure what a task's training iteration consists of, piece by piece."""

import sys

from ledger_lab.profiling.request import profile_parser
from ledger_lab.terminal.flags import answer_help
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    answer_help(profile_parser, sys.argv[1:], launcher=True)  # before anything heavy is imported
    from ledger_lab.profiling.run import profile_run

    run_script(profile_run)
