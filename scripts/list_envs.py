"""List the tasks, the physics they run on, and the panels that judge them."""

import sys

from ledger_lab.commands.first_look import first_look
from ledger_lab.commands.request import list_envs_parser
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    # before anything heavy is imported
    first_look(list_envs_parser, sys.argv[1:])
    from ledger_lab.commands.list_tasks import list_tasks

    run_script(list_tasks)
