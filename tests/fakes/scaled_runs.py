"""Trainings of several sizes with known contention and critical batch, as points of scaling studies."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ledger_lab.meters import Phase
from ledger_lab.scaling.points import Identity, ScaledRun

HORIZON = 16


def scaled_run(
    processes: int,
    num_envs: int,
    seed: int,
    *,
    run_id: str | None = None,
    contention: float = 0.1,
    critical_batch: float = 60_000,
    fewest_steps: float = 4e6,
    reached: bool = True,
    task: str = "LedgerLab-Ant",
    rl_library: str = "rsl_rl",
    instance: str = "aws-g6.xlarge",
    hardware: str = "NVIDIA L4",
    panel: str = "stand",
    usd_per_hour: float = 0.8,
) -> ScaledRun:
    """Return a training whose rate follows Amdahl's law, and whose steps follow the law of the batch."""
    noise = random.Random(f"{processes} {num_envs} {seed} {rl_library} {instance}")
    batch = processes * num_envs * HORIZON
    rate = 50_000 * processes / (1 + contention * (processes - 1)) * noise.gauss(1, 0.02)
    steps = fewest_steps * (1 + batch / critical_batch) * noise.gauss(1, 0.08)
    training_s, start_up_s, judging_s = steps / rate, 20.0 + noise.random(), 6.0 + noise.random()
    time_s = training_s + start_up_s + judging_s
    busy = 1 / (1 + contention * (processes - 1))
    phases = {
        Phase.STARTUP: start_up_s,
        Phase.SIMULATE: 0.5 * training_s * busy,
        Phase.INFER: 0.1 * training_s * busy,
        Phase.LEARN: 0.4 * training_s * busy,
        Phase.SYNCHRONIZE: training_s * (1 - busy),
        Phase.EVALUATE: judging_s,
    }
    cost = time_s / 3600 * usd_per_hour * processes
    return ScaledRun(
        run_id=run_id or f"{rl_library[:2]}{processes}x{num_envs}s{seed}",
        cohort=None,
        task=task,
        rl_library=rl_library,
        physics="newton_mjwarp",
        seed=seed,
        code="c0de",
        treatment="",
        processes=processes,
        machines=1,
        num_envs=num_envs,
        horizon=HORIZON,
        minibatches=4,
        instance=instance,
        usd_per_hour=usd_per_hour * processes,
        accelerators=processes,
        device="cuda",
        hardware=hardware,
        panel=panel,
        panel_id="ab" * 32,
        target_success=0.9,
        fps_step=2.4 * rate,
        fps_step_inference=1.9 * rate,
        fps_total=rate,
        epoch_s=batch / rate,
        phases={str(phase): seconds for phase, seconds in phases.items() if seconds > 0},
        identity=Identity(
            time_s=time_s,
            start_up_s=start_up_s,
            steps=round(steps),
            training_s=training_s,
            judging_s=judging_s,
            interruptions_s=0.0,
            split_s=0.0,
        ),
        status="target_reached" if reached else "completed",
        reached=reached,
        env_steps=round(steps),
        limit_steps=round(2 * steps),
        wall_s=time_s,
        cost_to_target_usd=cost if reached else None,
        billable_usd=cost,
        peak_gpu_memory_gb=6.0,
        peak_host_memory_gb=4.0,
        mean_power_w=(60.0,) * processes,
        mean_utilization=(0.8,) * processes,
        waits=(),
    )


def weak_and_strong(sizes: Sequence[int] = (1, 2, 4, 8), seeds: int = 3) -> list[ScaledRun]:
    """Return a weak and a strong study with one library, which share their smallest size; one large run misses."""
    weak = [(size, 1024) for size in sizes]
    strong = [(size, 1024 // size) for size in sizes[1:]]
    return [
        scaled_run(processes, num_envs, seed, reached=(processes, num_envs, seed) != (sizes[-1], 1024, 1))
        for processes, num_envs in [*weak, *strong]
        for seed in range(1, seeds + 1)
    ]
