"""Put the policy of a run into the package, for everybody's --pretrained."""

import sys

from ledger_lab.commands.first_look import first_look
from ledger_lab.evaluation.request import ship_policy_parser
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    # before anything heavy is imported
    first_look(ship_policy_parser, sys.argv[1:])
    from ledger_lab.evaluation.ship import ship_policy

    run_script(ship_policy)
