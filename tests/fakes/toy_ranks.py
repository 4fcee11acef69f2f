"""Processes that train the toy together with every library, and compare their learners after each iteration.

Usage: ``python tests/fakes/toy_ranks.py DIRECTORY``, with torchrun's variables in the environment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from observers import Heard  # run as a script, this folder is on the path
from toy_env import ToyEnv

from ledger_lab.ledger.libraries import LIBRARIES
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.tasks.registry import registered_tasks
from ledger_lab.training.launch import read_world
from ledger_lab.training.ranks import GradientWatch
from ledger_lab.training.runners.adapter import load_adapter
from ledger_lab.training.runners.collectives import metered_collectives
from ledger_lab.training.runners.configs import resolve_configs
from ledger_lab.training.runners.process_group import joined
from ledger_lab.training.runners.recorded_calls import recorded_calls

NORMALIZED = {
    "rsl_rl": ["agent.actor.obs_normalization=True", "agent.critic.obs_normalization=True"],
    "rl_games": ["agent.params.config.normalize_input=True", "agent.params.config.normalize_value=True"],
    "skrl": [
        "agent.agent.observation_preprocessor=RunningStandardScaler",
        "agent.agent.value_preprocessor=RunningStandardScaler",
    ],
}
"""Overrides that normalize what can be normalized."""
NORMALIZER = {
    "rsl_rl": ("actor_state_dict", "obs_normalizer._mean", "obs_normalizer.count"),
    "rl_games": ("model", "running_mean_std.running_mean", "running_mean_std.count"),
    "skrl": ("observation_preprocessor", "running_mean", "current_count"),
}
"""Where a trainer's state has what observations are normalized by: a part, and in it their mean and count."""
OPTIMIZED: dict[str, Callable[[Any], Any]] = {
    "rsl_rl": lambda trainer: trainer._runner.alg.optimizer,
    "rl_games": lambda trainer: trainer._algo.optimizer,
    "skrl": lambda trainer: trainer._agent.optimizer,
}
"""Where a trainer has its optimizer."""


def main() -> None:
    """Print what came of it by library, as one line of JSON."""
    world = read_world(os.environ, distributed=True)
    told: dict[str, Any] = {}
    registered_tasks()
    with joined(world, on_gpu=False) as group:
        for library in LIBRARIES:
            adapter = load_adapter(library)
            _, agent_cfg = resolve_configs("LedgerLab-Cartpole", library, NORMALIZED[library])
            agent_cfg = adapter.prepare(agent_cfg, "cpu", seed=5, max_iterations=5)
            agent_cfg = adapter.with_seed(agent_cfg, 5 + world.rank)
            torch.manual_seed(5 + world.rank)
            run_dir = Path(sys.argv[1]) / f"{library}_{world.rank}"
            run_dir.mkdir()
            clock = PhaseClock(time.perf_counter_ns(), base=Phase.UNATTRIBUTED)
            env = ToyEnv()
            with metered_collectives(clock):
                heard = Heard(stop_after=3)
                trainer = adapter.trainer(env, agent_cfg, run_dir, clock, heard.record)  # type: ignore[arg-type]
                seeded = torch.initial_seed()
                optimizer, rows = OPTIMIZED[library](trainer), []
                watch = GradientWatch(world, 5, rows.append)

                def compare(iterations: int) -> None:
                    group.require_equal(trainer.state())  # noqa: B023
                    watch.after_iteration(iterations)  # noqa: B023

                heard.on_each = compare

                def gradient(*_: Any) -> torch.Tensor:
                    grouped = (each for group in optimizer.param_groups for each in group["params"])  # noqa: B023
                    return torch.cat([each.grad.flatten() for each in grouped if each.grad is not None]).double()

                with watch.measuring(trainer), recorded_calls(torch.Tensor, "backward", gradient) as gradients:
                    trainer.train(heard.on_iteration)
                own = torch.stack(gradients)
                average = own.clone()
                dist.all_reduce(average)
            part, mean, count = NORMALIZER[library]
            normalizer = trainer.state()[part]
            told[library] = {
                "iterations": sorted(heard.figures),
                "learning_rate": heard.figures[3]["learning_rate"],
                "actions": float(torch.cat(env.actions).sum()),
                "synchronized": clock.flush()[0].get("synchronize", 0) > 0,
                "seeded": seeded,
                "gradients": [
                    sum(row.steps for row in rows),
                    *(sum(row.steps * getattr(row, name) for row in rows) for name in ("own_square", "average_square")),
                ],
                "by_autograd": [len(own), float(own.square().sum()), float((average / world.size).square().sum())],
                "observed": torch.cat(env.observed).double().sum(dim=0).tolist(),
                "normalized_by": (normalizer[mean].double() * normalizer[count]).flatten().tolist(),
            }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
