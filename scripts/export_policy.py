"""Export a policy as TorchScript and ONNX, with the contract that a robot needs to run it."""

import sys

from ledger_lab.checkpoints.request import export_policy_parser
from ledger_lab.terminal.flags import answer_help
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    answer_help(export_policy_parser, sys.argv[1:], launcher=True)  # before anything heavy is imported
    from ledger_lab.checkpoints.export import export_policy

    run_script(export_policy)
