"""Score any number of checkpoints on every episode of a held-out panel, in one simulation pass."""

import sys

from ledger_lab.cli.first_look import first_look
from ledger_lab.reports.terminal.script import imported_later
from ledger_lab.training.evaluation.request import EvaluateRequest
from ledger_lab.training.supervision.start import run_supervised

if __name__ == "__main__":
    first_look(EvaluateRequest, sys.argv[1:])  # before anything heavy is imported
    run_supervised(imported_later("ledger_lab.training.evaluation.run:evaluate_run"))
