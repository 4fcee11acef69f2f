"""One short training of SAC or TD3 with MuJoCo's C code, with or without gradient steps beside the simulation.

Nothing is scored, and no run is recorded.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ledger_lab.files import file_sha256
from ledger_lab.ledger import CheckpointSaved
from ledger_lab.ledger.libraries import agent_key, dialect_of
from ledger_lab.ledger.meters import Phase, PhaseClock
from ledger_lab.off_policy.recipes import RECIPES as OFF_POLICY_RECIPES
from ledger_lab.tasks.registry import registered_tasks
from ledger_lab.training.batch import plan_batch, plan_threads
from ledger_lab.training.runners.adapter import load_adapter
from ledger_lab.training.runners.configs import resolve_configs
from ledger_lab.training.runners.cpu_graphs import recorded_physics
from ledger_lab.training.runners.session import environment, require_runtime, simulation_app

WARM_UP = 2
"""Iterations before anything is timed; the first updates fall into them."""


def main(arguments: Sequence[str]) -> int:
    """Train, and print speeds and lag.

    Args:
        arguments: Task, algorithm, whether to overlap (0 or 1), environments, gradient steps per environment step,
            iterations.

    Returns:
        0.
    """
    task, algorithm = arguments[:2]
    overlaps, num_envs, updates, iterations = map(int, arguments[2:])
    registered_tasks()
    cfg, _ = resolve_configs(task, "rsl_rl", ["physics=newton_mujoco"])
    cfg.scene.num_envs, cfg.sim.device, cfg.seed = num_envs, "cpu", 1
    require_runtime(cfg, {"device": "cpu"})
    (own,) = (each for each in OFF_POLICY_RECIPES[task] if each.algorithm == algorithm)
    recipe = replace(own, num_envs=num_envs, updates_per_step=updates)
    adapter = load_adapter("skrl", agent_key("skrl", algorithm))
    config = {**dialect_of("skrl", algorithm).translate(recipe), "overlap": bool(overlaps)}
    agent_cfg = adapter.prepare(config, "cpu", seed=1, max_iterations=WARM_UP + iterations)
    threads = plan_threads(adapter, agent_cfg, plan_batch(adapter, agent_cfg), num_envs, "cpu")
    clock = PhaseClock(time.perf_counter_ns())
    heard: list[Mapping[str, float]] = []
    passed_s: list[float] = []

    def on_iteration(done: int, figures: Mapping[str, float]) -> bool:
        if done == WARM_UP:
            clock.flush()
        if done >= WARM_UP:
            passed_s.append(time.perf_counter())
            heard.append(dict(figures))
        return done < WARM_UP + iterations

    def record(path: Path, done: int) -> CheckpointSaved:
        size, digest = path.stat().st_size, file_sha256(path)
        return CheckpointSaved(path=path.name, sha256=digest, size_bytes=size, iteration=done, env_steps=0, wall_ns=0)

    with (
        tempfile.TemporaryDirectory() as folder,
        simulation_app(cfg, {"device": "cpu"}),
        environment(task, cfg) as env,
        recorded_physics(env),
    ):
        trainer = adapter.trainer(env, agent_cfg, Path(folder), clock, record)
        trainer.compute_in(threads)
        clock.set_base(Phase.UNATTRIBUTED)
        trainer.train(on_iteration)
        phase_ns, _ = clock.flush()
    wall_s = passed_s[-1] - passed_s[0]
    steps = iterations * recipe.horizon
    found: dict[str, Any] = {
        "step_ms": 1e3 * wall_s / steps,
        "env_steps_per_s": num_envs * steps / wall_s,
        "gradient_steps_per_s": updates * steps / wall_s,
        "phases_ms": {
            phase: spent_ns / steps / 1e6 for phase, spent_ns in phase_ns.items() if phase != Phase.CHECKPOINT
        },
        "learner_threads": threads.learn,
    }
    if overlaps:
        found["overlapped_ms"] = 1e3 * sum(each["overlapped_s"] for each in heard[1:]) / steps
        found |= {name: heard[-1][name] for name in ("policy_lag_steps", "policy_lag_updates")}
    sys.stdout.write(f"\n{json.dumps(found)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
