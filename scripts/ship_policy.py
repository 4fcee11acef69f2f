"""Put the policy of a run into the package, for everybody's --pretrained."""

import sys
from collections.abc import Sequence

from ledger_lab.commands.first_look import first_look
from ledger_lab.evaluation.request import ship_policy_parser
from ledger_lab.supervision.supervisor import run_watched


def main(argv: Sequence[str]) -> int | None:
    """Work in the watched process, which alone imports what is heavy."""
    from ledger_lab.evaluation.ship import ship_policy

    return ship_policy(argv)


if __name__ == "__main__":
    first_look(ship_policy_parser, sys.argv[1:])  # before anything heavy is imported
    run_watched(main)
