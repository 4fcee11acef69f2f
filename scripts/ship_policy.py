"""Put the policy of a run into the package, for --pretrained."""

import sys

from ledger_lab.commands.first_look import first_look
from ledger_lab.evaluation.request import ShipRequest
from ledger_lab.supervision.start import run_watched
from ledger_lab.terminal.script import imported_later

if __name__ == "__main__":
    first_look(ShipRequest, sys.argv[1:])  # before anything heavy is imported
    run_watched(imported_later("ledger_lab.evaluation.ship:ship_policy"))
