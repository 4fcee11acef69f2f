"""Short trainings with a replay memory, on the toy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ledger_lab.ledger.libraries import agent_key, dialect_of
from ledger_lab.ledger.meters.phases import PhaseClock
from ledger_lab.off_policy.recipe import OffPolicyRecipe
from ledger_lab.off_policy.recipes import CARTPOLE_SAC, CARTPOLE_TD3
from ledger_lab.training.runners.adapter import Adapter, load_adapter
from ledger_lab.training.runners.process_group import ALONE
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


OPTIONS: dict[str, Any] = {"n_step": 3, "critic_layer_norm": True, "policy_layer_norm": True, "update_every": 2}
"""Fields of the recipe that only SKRL has, and that change what is learned."""


LEARNERS = (("skrl", "sac"), ("skrl", "td3"), ("rl_games", "sac"))
"""All libraries and algorithms."""


def adapter(algorithm: str, library: str = "skrl") -> Adapter:
    """Return a library's adapter of an algorithm."""
    return load_adapter(library, agent_key(library, algorithm))


def translated(algorithm: str, library: str = "skrl", **changed: Any) -> dict[str, Any]:
    """Return the configuration of a small recipe, of which some fields are changed."""
    return dialect_of(library, algorithm).translate(replace(RECIPES[algorithm], **changed))


class Training:
    """A training on the toy."""

    def __init__(
        self,
        algorithm: str,
        run_dir: Path,
        *,
        library: str = "skrl",
        env: Any = None,  # noqa: ANN401 - the toy, or a view of it
        iterations: int = 3,
        settings: Mapping[str, Any] | None = None,
        seed: int = 5,
        **changed: Any,
    ) -> None:
        """Build it.

        Args:
            algorithm: Name on the command line.
            run_dir: Folder of the run.
            library: Name on the command line.
            env: What the learner sees; a new toy by default.
            iterations: Iterations to train.
            settings: Further settings of the library's configuration, at its top.
            seed: Seed of this process.
            changed: Fields of the recipe.
        """
        torch.manual_seed(seed)
        self.library = library
        self.adapter = adapter(algorithm, library)
        config = {**translated(algorithm, library, **changed), **(settings or {})}
        self.agent_cfg = self.adapter.prepare(config, "cpu", seed=seed, max_iterations=iterations)
        self.env, self.heard = env or ToyEnv(), Heard()
        self.clock = PhaseClock(time.perf_counter_ns())
        run_dir.mkdir(exist_ok=True)
        self.trainer: Any = self.adapter.trainer(self.env, self.agent_cfg, run_dir, self.clock, self.heard.record)

    @property
    def agent(self) -> Any:  # noqa: ANN401 - the library's own type
        """The library's agent."""
        return self.trainer._agent if self.library == "skrl" else self.trainer._algo

    @property
    def memory(self) -> Any:  # noqa: ANN401 - the library's own type
        """The library's replay memory."""
        return self.agent.memory if self.library == "skrl" else self.agent.replay_buffer

    def stored(self, name: str) -> torch.Tensor:
        """Return what the replay memory holds if it was filled at most once, of shape (steps, environments, numbers).

        Args:
            name: ``observations``, ``actions``, ``rewards``, ``next_observations`` or ``terminated``.
        """
        replay = self.trainer.replay
        index = replay._next.view(-1)[: len(replay)] if name == "next_observations" else torch.arange(len(replay))
        held: torch.Tensor = replay.read(name.removeprefix("next_"), index)
        return held.unflatten(0, (-1, replay.num_envs))

    def train(self) -> None:
        """Train to the end, and note the state of the random stream there."""
        self.trainer.train(self.heard.on_iteration)
        self.chance = torch.get_rng_state()

    def go_on_from(self, begun: Training) -> None:
        """Restore what an interrupted training has left, with its replay memory, and go on in its episodes.

        Args:
            begun: A training of the same recipe that has ended early.
        """
        self.trainer.replay.restore(begun.trainer.replay.state())
        self.trainer.restore(begun.trainer.state())
        self.env.position, self.env.episode_length_buf = begun.env.position, begun.env.episode_length_buf
        torch.set_rng_state(begun.chance)


def require_same_learner(one: Training, other: Training) -> None:
    """Check that two trainings have the same learner, bit for bit."""
    hashes: list[str] = []
    for training in (one, other):
        ALONE.require_equal(training.trainer.state(), hashes.append)
    assert hashes[0] == hashes[1]


def put(agent_cfg: Any, path: str, value: object) -> None:
    """Set a value in a configuration; ``None`` removes it."""
    *groups, name = path.split(".")
    for group in groups:
        agent_cfg = agent_cfg[group]
    if value is None:
        del agent_cfg[name]
    else:
        agent_cfg[name] = value


def learned(training: Training) -> dict[int, dict[str, float]]:
    """Return the figures of each iteration, without those of episodes, which are counted anew after an interruption."""
    of_episodes = ("mean_return", "mean_episode_steps")
    figures = training.heard.figures.items()
    return {number: {name: each[name] for name in each if name not in of_episodes} for number, each in figures}
