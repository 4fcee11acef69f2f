"""Put the policy of a run into the package, for --pretrained."""

import sys

from ledger_lab.cli.first_look import first_look
from ledger_lab.reports.terminal.script import imported_later
from ledger_lab.training.evaluation.request import ShipRequest
from ledger_lab.training.supervision.start import run_watched

if __name__ == "__main__":
    first_look(ShipRequest, sys.argv[1:])  # before anything heavy is imported
    run_watched(imported_later("ledger_lab.training.evaluation.ship:ship_policy"))
