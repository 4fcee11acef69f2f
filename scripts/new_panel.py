"""Write a panel file for a registered task, filled from its configuration."""

import sys
from collections.abc import Sequence

from ledger_lab.commands.first_look import first_look
from ledger_lab.evaluation.request import new_panel_parser
from ledger_lab.supervision.supervisor import run_watched


def main(argv: Sequence[str]) -> int | None:
    """Run in the watched process; only this process imports torch and Isaac Lab."""
    from ledger_lab.evaluation.new_panel import new_panel

    return new_panel(argv)


if __name__ == "__main__":
    first_look(new_panel_parser, sys.argv[1:])  # before anything heavy is imported
    run_watched(main)
