"""Put the policy of a run into the package, for --pretrained."""

import sys
from collections.abc import Sequence

from ledger_lab.commands.first_look import first_look
from ledger_lab.evaluation.request import ship_policy_parser
from ledger_lab.supervision.supervisor import run_watched


def main(argv: Sequence[str]) -> int | None:
    """Run in the watched process; only this process imports torch and Isaac Lab."""
    from ledger_lab.evaluation.ship import ship_policy

    return ship_policy(argv)


if __name__ == "__main__":
    first_look(ship_policy_parser, sys.argv[1:])  # before anything heavy is imported
    run_watched(main)
