"""Train a task until a policy is proven to reach its target, and write what it cost into the ledger."""

import sys
from collections.abc import Sequence

from ledger_lab.commands.first_look import first_look
from ledger_lab.launch.inline import launch_processes
from ledger_lab.supervision.link import Link
from ledger_lab.supervision.supervisor import run_supervised
from ledger_lab.training.request import TrainRequest, train_parser


def main(argv: Sequence[str], started_ns: int, link: Link) -> None:
    """Run in the supervised process; only this process imports torch and Isaac Lab."""
    from ledger_lab.training.run import train_run

    train_run(argv, started_ns, link)


if __name__ == "__main__":
    # before anything heavy is imported
    first_look(train_parser, sys.argv[1:], TrainRequest)
    launch_processes()
    run_supervised(main)
