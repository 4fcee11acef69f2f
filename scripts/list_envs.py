"""List the tasks with their physics and their panels."""

import sys

from ledger_lab.commands.first_look import first_look
from ledger_lab.commands.request import ListRequest
from ledger_lab.supervision.start import run_watched
from ledger_lab.terminal.script import imported_later

if __name__ == "__main__":
    first_look(ListRequest, sys.argv[1:])  # before anything heavy is imported
    run_watched(imported_later("ledger_lab.commands.list_tasks:list_tasks"))
