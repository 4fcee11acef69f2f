"""Train a task until a policy is proven to reach its target, and record time and cost in the ledger."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("train")
