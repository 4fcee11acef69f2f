"""Export a policy as TorchScript and ONNX, with the contract that a robot needs to run it."""

import sys

from ledger_lab.cli.first_look import first_look
from ledger_lab.reports.terminal.script import imported_later
from ledger_lab.training.checkpoints.request import ExportRequest
from ledger_lab.training.supervision.start import run_watched

if __name__ == "__main__":
    first_look(ExportRequest, sys.argv[1:])  # before anything heavy is imported
    run_watched(imported_later("ledger_lab.training.checkpoints.export:export_policy"))
