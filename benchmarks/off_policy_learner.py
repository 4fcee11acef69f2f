"""The learner of a training with a replay memory, which is full of random transitions. There is no simulation."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ledger_lab.off_policy.recipe import OffPolicyRecipe
from ledger_lab.off_policy.recipes import CARTPOLE_SAC, CARTPOLE_TD3

_LARGE: Mapping[str, Any] = {"hidden_dims": (256, 256), "batch_size": 1024, "replay_steps": 64}
"""Changes of the cart-pole's recipes: typical sizes for a quadruped, not a recipe."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A learner of some size."""

    algorithm: str
    name: str
    observations: int
    actions: int
    recipe: OffPolicyRecipe


def cases(**changed: int) -> list[Case]:
    """Return the learners to measure: both algorithms, each with two sizes.

    Args:
        changed: Fields of all recipes to change.
    """
    found = []
    for recipe in (CARTPOLE_SAC, CARTPOLE_TD3):
        small = Case(algorithm=recipe.algorithm, name="cart-pole", observations=4, actions=1, recipe=recipe)
        larger = replace(recipe, **_LARGE)
        found += [small, replace(small, name="quadruped", observations=48, actions=12, recipe=larger)]
    return [replace(case, recipe=replace(case.recipe, **changed)) for case in found]  # type: ignore[arg-type]


class NoSimulation:
    """Sizes and spaces of an environment that is never stepped, for a learner whose memory is already full."""

    render_mode = None

    def __init__(self, case: Case, device: str) -> None:
        """Describe it."""
        import gymnasium as gym
        import numpy as np
        import torch

        self.num_envs, self.device, self.unwrapped = case.recipe.num_envs, device, self
        self.single_observation_space = gym.spaces.Dict(
            {"policy": gym.spaces.Box(-np.inf, np.inf, (case.observations,))}
        )
        self.single_action_space = gym.spaces.Box(-np.inf, np.inf, (case.actions,))
        self.obs_buf = {"policy": torch.zeros(self.num_envs, case.observations, device=device)}
        self.cfg = SimpleNamespace(is_finite_horizon=False)
        self.sim = SimpleNamespace(step=lambda: None)

    def reset(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, kw_only=True)
class Learner:
    """The learner of a training."""

    agent: Any
    """The library's agent."""
    update: Callable[[], object]
    """Makes the gradient steps of one environment step."""
    device: str

    @classmethod
    def of(cls, case: Case, folder: Path, device: str) -> Learner:
        """Build it as a training does, and fill its replay memory. The same arguments give the same learner.

        Args:
            case: Its algorithm and size.
            folder: An empty folder for the library's files.
            device: Its device.
        """
        import torch

        from ledger_lab.ledger.libraries import agent_key, dialect_of
        from ledger_lab.ledger.meters import PhaseClock
        from ledger_lab.training.runners.adapter import load_adapter

        torch.manual_seed(1)
        adapter = load_adapter("skrl", agent_key("skrl", case.algorithm))
        config = dialect_of("skrl", case.algorithm).translate(case.recipe)
        agent_cfg = adapter.prepare(config, device, seed=1, max_iterations=1)
        env: Any = NoSimulation(case, device)
        record: Any = None  # nothing is saved
        trainer: Any = adapter.trainer(env, agent_cfg, folder, PhaseClock(time.perf_counter_ns()), record)
        agent = trainer._agent
        agent.enable_models_training_mode(True)
        for _ in range(case.recipe.replay_steps):
            seen, after = torch.randn(2, env.num_envs, case.observations, device=device)
            agent.memory.add_samples(
                observations=seen,
                states=None,
                actions=2.0 * torch.rand(env.num_envs, case.actions, device=device) - 1.0,
                rewards=torch.randn(env.num_envs, 1, device=device),
                next_observations=after,
                next_states=None,
                terminated=torch.rand(env.num_envs, 1, device=device) < 0.01,
            )
        return cls(agent=agent, update=functools.partial(agent.update, timestep=0, timesteps=1), device=device)

    def run(self, updates: int) -> float:
        """Make updates.

        Args:
            updates: How many.

        Returns:
            How long they took [s].
        """
        began = time.perf_counter()
        for _ in range(updates):
            self.update()
        self.synchronize()
        spent_s = time.perf_counter() - began
        self.agent.tracking_data.clear()
        return spent_s

    def synchronize(self) -> None:
        """Wait until a GPU has finished. On a CPU, work is finished when it is launched."""
        import torch

        if self.device != "cpu":
            torch.cuda.synchronize(self.device)


@dataclass(frozen=True, kw_only=True)
class Turns:
    """How much is measured, and where."""

    updates: int
    """Updates of a turn."""
    rounds: int
    """Turns of each variant."""
    device: str

    def steps(self, case: Case) -> int:
        """Return the gradient steps of a turn.

        Args:
            case: The learner.
        """
        return self.updates * case.recipe.updates_per_step


@contextmanager
def learner_threads(case: Case, device: str) -> Iterator[None]:
    """Compute in as many threads as the gradient steps of a training.

    Args:
        case: The learner.
        device: Its device.
    """
    from ledger_lab.training.runners.threads import threads_for, torch_threads

    recipe = case.recipe
    cores = len(os.sched_getaffinity(0))
    with torch_threads(threads_for(cores, recipe.hidden_dims, recipe.num_envs, recipe.batch_size, device).learn):
        yield
