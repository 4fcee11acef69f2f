"""Write a panel file for a registered task, filled from its configuration."""

import sys

from ledger_lab.evaluation.request import new_panel_parser
from ledger_lab.terminal.flags import answer_help
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    answer_help(new_panel_parser, sys.argv[1:], launcher=False)  # before anything heavy is imported
    from ledger_lab.evaluation.new_panel import new_panel

    run_script(new_panel)
