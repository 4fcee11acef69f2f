"""Short trainings of SKRL's algorithms with a replay memory, on the toy."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ledger_lab.meters import PhaseClock
from ledger_lab.recipes import CARTPOLE_SAC, CARTPOLE_TD3, OffPolicyRecipe, dialect_of
from ledger_lab.runners.adapter import Adapter, load_adapter
from tests.fakes.observers import Heard
from tests.fakes.toy_env import ToyEnv

RECIPES: dict[str, OffPolicyRecipe] = {
    recipe.algorithm: replace(
        recipe,
        horizon=16,
        replay_steps=48,
        random_steps=4,
        warm_up_steps=20,
        batch_size=16,
        hidden_dims=(8,),
        action_bound=2.0,
        observation_normalization=False,
    )
    for recipe in (CARTPOLE_SAC, CARTPOLE_TD3)
}
"""A small recipe of each algorithm."""


def adapter(algorithm: str) -> Adapter:
    """Return SKRL's adapter of an algorithm."""
    return load_adapter("skrl", f"skrl_{algorithm}_cfg_entry_point")


def translated(algorithm: str, **changed: Any) -> dict[str, Any]:
    """Return the configuration of a small recipe, of which some fields are changed."""
    return dialect_of("skrl", algorithm).translate(replace(RECIPES[algorithm], **changed))


class Training:
    """A training on the toy."""

    def __init__(
        self,
        algorithm: str,
        run_dir: Path,
        *,
        env: Any = None,  # noqa: ANN401 - the toy, or a view of it
        iterations: int = 3,
        **changed: Any,
    ) -> None:
        """Build it.

        Args:
            algorithm: Name on the command line.
            run_dir: Folder of the run.
            env: What the learner sees; a new toy by default.
            iterations: Iterations to train.
            changed: Fields of the recipe.
        """
        torch.manual_seed(5)
        self.adapter = adapter(algorithm)
        config = translated(algorithm, **changed)
        self.agent_cfg = self.adapter.prepare(config, "cpu", seed=5, max_iterations=iterations)
        self.env, self.heard = env or ToyEnv(), Heard()
        self.clock = PhaseClock(time.perf_counter_ns())
        self.trainer: Any = self.adapter.trainer(self.env, self.agent_cfg, run_dir, self.clock, self.heard.record)

    @property
    def agent(self) -> Any:  # noqa: ANN401 - the library's own type
        """The library's agent."""
        return self.trainer._agent

    def train(self) -> None:
        """Train to the end, and note the state of the random stream there."""
        self.trainer.train(self.heard.on_iteration)
        self.chance = torch.get_rng_state()
