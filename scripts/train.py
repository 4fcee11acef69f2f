"""Train a task until a policy is proven to reach its target, and write what it cost into the ledger."""

from ledger_lab.meters import process_started_ns
from ledger_lab.pipeline.script import run_script

if __name__ == "__main__":
    STARTED_NS = process_started_ns()
    from ledger_lab.pipeline.train_run import train_run

    run_script(lambda argv: train_run(argv, STARTED_NS))
