"""Score any number of checkpoints on every episode of a held-out panel, in one simulation pass."""

from ledger_lab.meters import process_started_ns
from ledger_lab.pipeline.script import run_script

if __name__ == "__main__":
    STARTED_NS = process_started_ns()
    from ledger_lab.pipeline.evaluate_run import evaluate_run

    run_script(lambda argv: evaluate_run(argv, STARTED_NS))
