"""Export a policy as TorchScript and ONNX, with the contract that a robot needs to run it."""

import sys
from collections.abc import Sequence

from ledger_lab.checkpoints.request import ExportRequest, export_policy_parser
from ledger_lab.commands.first_look import first_look
from ledger_lab.supervision.supervisor import run_watched


def main(argv: Sequence[str]) -> int | None:
    """Run in the watched process; only this process imports torch and Isaac Lab."""
    from ledger_lab.checkpoints.export import export_policy

    return export_policy(argv)


if __name__ == "__main__":
    first_look(export_policy_parser, sys.argv[1:], ExportRequest)  # before anything heavy is imported
    run_watched(main)
