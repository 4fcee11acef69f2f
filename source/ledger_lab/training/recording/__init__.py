"""The ledger for a trainer of any framework: a context manager that writes the same rows as LedgerLab's own runs.

.. code-block:: python

    with record_run(task="CartPole-v1", library="my_trainer", panel=panel, target_success=0.9, seed=1, device="cpu",
                    num_envs=8, horizon=128, max_iterations=100) as run:
        for iteration in range(1, 101):
            with run.phase("simulate"):
                batch = rollout()
            with run.phase("learn"):
                loss = update(batch)
            run.iteration(iteration, env_steps=iteration * 8 * 128, figures={"value_loss": loss})
            saved = run.checkpoint(save(run.directory / f"{iteration}.pt"))
            run.judge(saved, take)
            if run.target_reached:
                break

The run's journal records how the block ended: normally, by an exception, Ctrl-C or SIGTERM. Needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledger_lab.training.recording.run import RecordedPanel, RecordedRun, record_run

__all__ = ["RecordedPanel", "RecordedRun", "record_run"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - see the names above
    """Import a name when it is asked for: the verdict needs NumPy, and a supervisor does not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.run"), name)
