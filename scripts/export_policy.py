"""Export a policy as TorchScript and ONNX, with the contract that a robot needs to run it."""

import sys

from ledger_lab.checkpoints.request import ExportRequest
from ledger_lab.commands.first_look import first_look
from ledger_lab.supervision.start import run_watched
from ledger_lab.terminal.script import imported_later

if __name__ == "__main__":
    first_look(ExportRequest, sys.argv[1:])  # before anything heavy is imported
    run_watched(imported_later("ledger_lab.checkpoints.export:export_policy"))
