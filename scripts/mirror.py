"""Send a run to TensorBoard, Weights & Biases or MLflow, from its journals."""

from ledger_lab.reports.mirrors.program import mirror_run
from ledger_lab.reports.terminal.script import run_script

if __name__ == "__main__":
    run_script(mirror_run)
