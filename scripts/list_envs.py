"""List the tasks, the physics they run on, and the panels that judge them."""

import sys
from collections.abc import Sequence

from ledger_lab.commands.first_look import first_look
from ledger_lab.commands.request import list_envs_parser
from ledger_lab.supervision.supervisor import run_watched


def main(argv: Sequence[str]) -> int | None:
    """Work in the watched process, which alone imports what is heavy."""
    from ledger_lab.commands.list_tasks import list_tasks

    return list_tasks(argv)


if __name__ == "__main__":
    first_look(list_envs_parser, sys.argv[1:])  # before anything heavy is imported
    run_watched(main)
