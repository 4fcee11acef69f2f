"""Put the policy of a run into the package, for everybody's --pretrained."""

import sys

from ledger_lab.evaluation.request import ship_policy_parser
from ledger_lab.terminal.flags import answer_help
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    answer_help(ship_policy_parser, sys.argv[1:], launcher=False)  # before anything heavy is imported
    from ledger_lab.evaluation.ship import ship_policy

    run_script(ship_policy)
