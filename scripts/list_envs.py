"""List the tasks, the physics they run on, and the panels that judge them."""

import sys

from ledger_lab.commands.request import list_envs_parser
from ledger_lab.terminal.flags import answer_help
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    answer_help(list_envs_parser, sys.argv[1:], launcher=False)  # before anything heavy is imported
    from ledger_lab.commands.list_tasks import list_tasks

    run_script(list_tasks)
