"""Processes that train the toy together, each from a replay memory of its own, and compare their learners.

Usage: ``python tests/fakes/replay_ranks.py DIRECTORY``, with torchrun's variables in the environment.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from ledger_lab.errors import UserError
from ledger_lab.off_policy import replay_plan
from ledger_lab.off_policy.replay_plan import ReplayPlan
from ledger_lab.training.launch import World, read_world
from ledger_lab.training.runners.collectives import processes_here
from ledger_lab.training.runners.process_group import ProcessGroup, joined
from ledger_lab.training.runners.recorded_calls import replaced
from tests.fakes.off_policy import OPTIONS, Training

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sac": ("sac", {}),
    "td3": ("td3", OPTIONS),
}
"""Algorithm and fields of the recipe."""


REPLAY = ReplayPlan(
    settings={"replay_steps": "agent.steps"},
    replay_steps=100,
    warm_up_steps=0,
    batch_size=8,
    updates_per_step=1,
)
"""A replay memory that does not fit."""


def main() -> None:
    """Print what came of it by case, as one line of JSON."""
    world = read_world(os.environ, distributed=True)
    with joined(world, on_gpu=False) as group:
        told = {case: told_of(case, world, group) for case in CASES}
        with replaced(replay_plan, usable_bytes=lambda: 10_000 - 2_000 * world.rank):
            try:
                REPLAY.require_memory(8, 4 * 2, 1, torch.device("cpu"), processes_here())
            except UserError as error:
                told["too large"] = {"said": str(error).rpartition(": ")[2]}
    print(json.dumps(told), flush=True)


def told_of(case: str, world: World, group: ProcessGroup) -> dict[str, Any]:
    """Train two iterations and, resumed with an empty replay memory, a third one; return what became of them."""
    algorithm, options = CASES[case]
    hashes: list[str] = []

    def training(part: str) -> Training:
        """Return a training that compares the learners before it begins, and after each iteration."""
        run_dir = Path(sys.argv[1]) / f"{case}_{part}_{world.rank}"
        recipe = {"observation_normalization": True, "updates_per_step": 1, **options}
        built = Training(algorithm, run_dir, seed=5 + world.rank, iterations=3, **recipe)
        built.heard.on_each = lambda _: group.require_equal(built.trainer.state(), hashes.append)
        built.heard.on_each(0)
        return built

    begun, resumed = training("begun"), training("resumed")
    begun.heard.stop_after = 2
    begun.train()
    resumed.trainer.restore(begun.trainer.state())
    resumed.train()
    agent, state = begun.agent, begun.trainer.state()
    return {
        "hashes": hashes,
        "learned": sorted(resumed.heard.figures[3]),
        "held": begun.stored("observations")[:32].double().sum().item(),
        "normalized_by": state.get("observation_preprocessor", {}).get("current_count", torch.zeros(())).item(),
        "coefficient": agent.log_entropy_coefficient.item() if algorithm == "sac" else None,
        "noise": agent._exploration_noise.std.flatten().tolist() if algorithm == "td3" else None,
    }


if __name__ == "__main__":
    main()
