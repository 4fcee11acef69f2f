"""Write a panel file for a registered task, filled from its configuration."""

import sys

from ledger_lab.commands.first_look import first_look
from ledger_lab.evaluation.request import new_panel_parser
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    # before anything heavy is imported
    first_look(new_panel_parser, sys.argv[1:])
    from ledger_lab.evaluation.new_panel import new_panel

    run_script(new_panel)
