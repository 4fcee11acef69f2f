"""Scaling studies of known contention and critical batch, with noise between their runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from ledger_lab.studies.scaling.points import ScaledRun
from tests.fakes.scaled import HORIZON, scaled

_CONTENTION, _FEWEST_STEPS = 0.1, 4e6


def noisy_run(
    processes: int, num_envs: int, seed: int, *, critical_batch: float = 60_000, reached: bool = True, **changes: Any
) -> ScaledRun:
    """Return a training whose rate follows Amdahl's law, and whose steps follow the law of the batch.

    Args:
        processes: Its processes.
        num_envs: Environments of each.
        seed: Its seed, also that of the noise.
        critical_batch: Critical batch [samples].
        reached: Whether it reached the target.
        changes: Other fields.
    """
    noise = random.Random(f"{processes} {num_envs} {seed}")
    busy = 1 / (1 + _CONTENTION * (processes - 1))
    rate = 50_000 * processes * busy * noise.gauss(1, 0.02)
    steps = round(_FEWEST_STEPS * (1 + processes * num_envs * HORIZON / critical_batch) * noise.gauss(1, 0.08))
    training_s, scoring_s = steps / rate, 6.0 + noise.random()
    phases = {"startup": 2.0, "simulate": 0.6 * busy * training_s, "learn": 0.4 * busy * training_s}
    waiting = {"synchronize": (1 - busy) * training_s} if processes > 1 else {}
    cost = (2.0 + training_s + scoring_s) * processes / 3600
    fields: dict[str, Any] = {
        "run_id": f"{processes}x{num_envs}s{seed}", "task": "LedgerLab-Ant", "fps_step": 2.4 * rate,
        "fps_step_inference": 1.9 * rate, "phases": {**phases, **waiting, "evaluate": scoring_s},
        "cost_to_target_usd": cost if reached else None, "billable_usd": cost, "instance": "aws-g6.xlarge",
    }  # fmt: skip
    return scaled(
        processes, num_envs, rate=rate, steps=steps, reached=reached, scoring_s=scoring_s, seed=seed,
        **{**fields, **changes},
    )  # fmt: skip


def weak_and_strong(sizes: Sequence[int] = (1, 2, 4, 8), seeds: int = 3) -> list[ScaledRun]:
    """Return a weak and a strong study that share their smallest size. One run of the largest size misses.

    Args:
        sizes: Numbers of processes, the smallest first.
        seeds: Runs of each size.
    """
    weak = [(size, 1024) for size in sizes]
    strong = [(size, 1024 // size) for size in sizes[1:]]
    return [
        noisy_run(processes, num_envs, seed, reached=(processes, num_envs, seed) != (sizes[-1], 1024, 1))
        for processes, num_envs in [*weak, *strong]
        for seed in range(1, seeds + 1)
    ]
