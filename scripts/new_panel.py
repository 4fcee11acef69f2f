"""Write a panel file for a registered task, filled from its configuration."""

import sys

from ledger_lab.commands.first_look import first_look
from ledger_lab.evaluation.request import NewPanelRequest
from ledger_lab.supervision.start import run_watched
from ledger_lab.terminal.script import imported_later

if __name__ == "__main__":
    first_look(NewPanelRequest, sys.argv[1:])  # before anything heavy is imported
    run_watched(imported_later("ledger_lab.evaluation.new_panel:new_panel"))
