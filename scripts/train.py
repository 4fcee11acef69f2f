"""Train a task until a policy is proven to reach its target, and write what it cost into the ledger."""

import functools
import pkgutil
import sys

from ledger_lab.cli.first_look import first_look
from ledger_lab.clusters.submit import submit_if_asked
from ledger_lab.reports.terminal.script import imported_later
from ledger_lab.training.launch.inline import launch_processes
from ledger_lab.training.request import TrainRequest
from ledger_lab.training.supervision.start import run_supervised

if __name__ == "__main__":
    first_look(TrainRequest, sys.argv[1:])  # before anything heavy is imported
    submit_if_asked(sys.argv[1:])
    launch_processes()
    run_supervised(
        imported_later("ledger_lab.training.run:train_run"),
        report=functools.partial(pkgutil.resolve_name, "ledger_lab.training.final_report:print_final_report"),
    )
