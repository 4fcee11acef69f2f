"""Appends rows to MLflow or to Weights & Biases, for ``benchmarks ledger``.

Run it as a program in an environment with these packages; LedgerLab is not needed:
``python neighbour_appends.py mlflow|wandb FOLDER ROWS``. Prints one JSON object.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

FIGURES = {
    "mean_return": 173.25,
    "mean_episode_steps": 281.5,
    "value_loss": 0.0123,
    "policy_loss": -0.00321,
    "entropy": 1.1234,
    "action_std": 0.8123,
    "kl": 0.0101,
    "grad_norm": 0.9123,
    "learning_rate": 0.0003,
}
"""Figures of one iteration, as many as in LedgerLab's row without its phases."""


def _timed(append: Callable[[int], None], rows: int) -> list[float]:
    """Append rows, and return the time of each call [s]."""
    seconds = []
    for row in range(rows):
        began_s = time.perf_counter()
        append(row)
        seconds.append(time.perf_counter() - began_s)
    return seconds


def append_to_mlflow(folder: Path, rows: int) -> dict[str, object]:
    """Log rows to MLflow's SQLite store one by one, and in the largest batches allowed; then read them back."""
    import mlflow
    from mlflow.entities import Metric

    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    client = mlflow.MlflowClient()
    run_id = client.create_run(client.create_experiment("bench")).info.run_id

    def batch(first: int, count: int) -> list[Metric]:
        stamp_ms = int(time.time() * 1000)
        numbers = range(first, first + count)
        return [Metric(name, value, stamp_ms, number) for number in numbers for name, value in FIGURES.items()]

    client.log_batch(run_id, metrics=batch(0, 1))  # the first call sets up caches
    one_by_one_s = _timed(lambda row: client.log_batch(run_id, metrics=batch(1 + row, 1)), rows)
    at_once = 1000 // len(FIGURES)
    began_s = time.perf_counter()
    for first in range(0, rows, at_once):
        client.log_batch(run_id, metrics=batch(1 + rows + first, min(at_once, rows - first)))
    batched_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    found = [len(client.get_metric_history(run_id, name)) for name in FIGURES]
    read_s = time.perf_counter() - began_s
    assert min(found) == 2 * rows + 1, found
    version = mlflow.__version__
    return {
        "version": version,
        "one_by_one_s": one_by_one_s,
        "batched_s": batched_s,
        "read_s": read_s,
        "read_rows": 2 * rows + 1,
    }


def append_to_wandb(folder: Path, rows: int) -> dict[str, object]:
    """Log rows to Weights & Biases in its offline mode, whose calls hand them to another process."""
    os.environ["WANDB_DIR"] = str(folder)
    import wandb

    run = wandb.init(mode="offline", project="bench", dir=str(folder), settings=wandb.Settings(silent=True))
    run.log(FIGURES)
    seconds = _timed(lambda row: run.log(FIGURES), rows)
    began_s = time.perf_counter()
    run.finish()
    return {"version": wandb.__version__, "one_by_one_s": seconds, "finish_s": time.perf_counter() - began_s}


if __name__ == "__main__":
    neighbour = {"mlflow": append_to_mlflow, "wandb": append_to_wandb}[sys.argv[1]]
    with contextlib.redirect_stdout(sys.stderr):  # both print to stdout
        found = neighbour(Path(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps(found))
