"""List the tasks with their physics and their panels."""

import sys
from collections.abc import Sequence

from ledger_lab.commands.first_look import first_look
from ledger_lab.commands.request import list_envs_parser
from ledger_lab.supervision.supervisor import run_watched


def main(argv: Sequence[str]) -> int | None:
    """Run in the watched process; only this process imports torch and Isaac Lab."""
    from ledger_lab.commands.list_tasks import list_tasks

    return list_tasks(argv)


if __name__ == "__main__":
    first_look(list_envs_parser, sys.argv[1:])  # before anything heavy is imported
    run_watched(main)
