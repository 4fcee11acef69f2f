"""Send a run to TensorBoard, Weights & Biases or MLflow, from its journals."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("log_run")
