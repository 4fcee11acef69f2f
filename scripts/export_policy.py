"""Export a policy as TorchScript and ONNX, with the contract that a robot needs to run it."""

import sys

from ledger_lab.checkpoints.request import ExportRequest, export_policy_parser
from ledger_lab.commands.first_look import first_look
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    # before anything heavy is imported
    first_look(export_policy_parser, sys.argv[1:], ExportRequest)
    from ledger_lab.checkpoints.export import export_policy

    run_script(export_policy)
