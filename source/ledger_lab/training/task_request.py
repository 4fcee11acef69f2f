"""What a user asks of every program that trains a task."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_lab.ledger.libraries import LIBRARIES
from ledger_lab.reports.terminal.flags import DEFAULT_TASK
from ledger_lab.reports.terminal.request import FlagGroup, SimulationRequest, flag

TASK = FlagGroup("task")


@dataclass(frozen=True, kw_only=True)
class TaskRequest(SimulationRequest):
    """What a user asks of a program that trains a task."""

    overrides: tuple[str, ...] = ()
    """Hydra overrides."""
    task: str = flag(
        DEFAULT_TASK,
        f"Gymnasium id of the task; scripts/list_envs.py lists all tasks (default: {DEFAULT_TASK}).",
        group=TASK,
    )
    rl_library: str | None = flag(None, f"RL library: {', '.join(LIBRARIES)} (default: set by the task).", group=TASK)
    num_envs: int | None = flag(
        None,
        "Number of environments per process (default: set by the task). On a GPU, the default of LedgerLab's tasks is "
        "4096, with the learning rate scaled as by --scale_lr sqrt.",
        group=TASK,
    )
    seed: int | None = flag(None, "Seed of the training (default: drawn at random, and recorded).", group=TASK)
