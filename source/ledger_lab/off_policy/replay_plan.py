"""A replay memory and the updates that use it: what is checked in all libraries, and how a training resumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self

import gymnasium as gym
import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger.control_groups import usable_bytes
from ledger_lab.off_policy.replay_memory import ReplayMemory, index_bytes
from ledger_lab.tasks.recipes import Dialect
from ledger_lab.tasks.recipes.settings import read_setting
from ledger_lab.training.runners.adapter import BatchPlan, Trainer
from ledger_lab.training.runners.collectives import largest_of_all_processes, processes_here

FLOAT_BYTES = 4
"""Size of a number, unless it is one of an image of bytes."""
_RESERVED = 0.1
"""Share of the free memory that is kept for networks, their optimizers, batches and policies that are judged."""
_FIRST_UPDATE, _RANDOM_STEPS = "first_update", "random_steps"
"""Parts of a state: the steps of each environment before the first update, and those with random actions."""


@dataclass(frozen=True, kw_only=True)
class ReplayPlan:
    """A replay memory, and the updates that use it. Its fields are those of a recipe."""

    settings: Mapping[str, str]
    """Settings of the agent's configuration that hold the fields, as far as the library has them."""
    replay_steps: int
    """Steps of each environment that it holds."""
    warm_up_steps: int
    """Steps before the first update."""
    batch_size: int
    """Transitions per gradient step that each process draws."""
    updates_per_step: int
    """Gradient steps after each step of all environments at which an update is due."""
    update_every: int = 1
    """Steps from one such step to the next."""
    replay_on_host: bool = False
    """Whether the host holds it if the training is on a GPU."""

    @classmethod
    def of(cls, dialect: Dialect, agent_cfg: Any) -> Self:  # noqa: ANN401 - the library's own type
        """Read a plan from the library's configuration.

        Args:
            dialect: The library and the algorithm.
            agent_cfg: Its configuration.

        Raises:
            KeyError: If a setting without a default is missing.
        """
        settings, known = dialect.overrides, dict[str, Any]()
        for field in (field for field in fields(cls) if field.name in settings):
            value = read_setting(agent_cfg, settings[field.name])
            known[field.name] = field.default if value is None else value
            if known[field.name] is MISSING:
                raise KeyError(settings[field.name])
        return cls(settings=settings, **known)

    def batch(self, max_iterations: int, horizon: int, save_interval: int) -> BatchPlan:
        """Return the batch arithmetic of a training.

        Args:
            max_iterations: Iterations of the training.
            horizon: Environment steps per iteration and environment, a multiple of :attr:`update_every`.
            save_interval: Iterations between two checkpoints.
        """
        return BatchPlan(
            max_iterations=max_iterations,
            horizon=horizon,
            epochs=1,
            minibatches=horizon // self.update_every * self.updates_per_step,
            minibatch_setting=self.settings["updates_per_step"],
            save_interval=save_interval,
            replay=self,
        )

    def require_update(self, steps: int) -> None:
        """Refuse a training that would end before its first update.

        Args:
            steps: Steps of the training.

        Raises:
            UserError: If it would.
        """
        if -(-(self.warm_up_steps + 1) // self.update_every) * self.update_every > steps:
            raise UserError(
                f"{self.settings['warm_up_steps']} {self.warm_up_steps}: the training ends after {steps} steps, before "
                "its first update: lower it, or raise --max_iterations"
            )

    def first_update(self, done: int, steps: int) -> int:
        """Return the step after which a training updates first that is resumed with an empty replay memory.

        The memory refills for as many steps as come before the first update of a new training, but for at most half of
        the steps that are left. Otherwise, a training that is resumed near its end would learn nothing more. No update
        comes earlier than in a new training.

        Args:
            done: Steps before the interruption.
            steps: Steps of the whole training.
        """
        return max(self.warm_up_steps, done + min(self.warm_up_steps, (steps - done) // 2))

    def require_memory(
        self, num_envs: int, observation_bytes: int, actions: int, device: torch.device, processes: int = 1
    ) -> None:
        """Refuse a replay memory that does not fit into what is free.

        All processes of a training call this, before any of them allocates its memory. They all find the same.

        Args:
            num_envs: Environments of this process.
            observation_bytes: Size of an observation, of all groups that are stored [B].
            actions: Numbers in an action.
            device: Device of the training, which no other process uses if it is a GPU.
            processes: Processes of the training on this machine, which share the memory of the host.

        Raises:
            UserError: If it does not fit; names the largest that does.
        """
        held_by = "cpu" if self.replay_on_host else str(device)
        on_gpu = held_by.startswith("cuda")
        each = num_envs * bytes_per_transition(observation_bytes, actions, (self.replay_steps + 1) * num_envs)
        newest = num_envs * observation_bytes
        needed = self.replay_steps * each + newest
        free = torch.cuda.mem_get_info(held_by)[0] if on_gpu else usable_bytes() // processes
        free = -int(largest_of_all_processes(torch.tensor(-free)))  # the least that any process has
        usable = round((1 - _RESERVED) * free)
        if needed <= usable:
            return
        host = self.settings.get("replay_on_host")
        shared = f" for each of {processes} processes" if held_by == "cpu" and processes > 1 else ""
        way_out = f"; {host}=true uses the memory of the host" if on_gpu and host else ""
        raise UserError(
            f"{self.settings['replay_steps']} {self.replay_steps}: a replay memory of {self.replay_steps} steps × "
            f"{num_envs} environments × {each // num_envs} bytes needs {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB "
            f"of {held_by} are free{shared}, of which {100 * _RESERVED:.0f} % are kept for networks and batches: there "
            f"is room for {max(0, usable - newest) // each} steps{way_out}"
        )


def bytes_per_transition(observation_bytes: int, actions: int, rows: int) -> int:
    """Return the size of a transition in :class:`ledger_lab.off_policy.replay_memory.ReplayMemory`.

    It holds the observation, the action, the reward, whether the episode was terminated, and the index of the next
    observation.

    Args:
        observation_bytes: Size of an observation: 4 bytes for each number, 1 for each number of an image of bytes.
        actions: Numbers in an action.
        rows: Observations that the memory holds; indices of many observations are longer.
    """
    return observation_bytes + FLOAT_BYTES * (actions + 1) + 1 + index_bytes(rows)


def require_settings(dialect: Dialect, agent_cfg: Any, *names: str) -> None:  # noqa: ANN401 - the library's own type
    """Refuse a configuration without settings that the library or LedgerLab needs.

    Args:
        dialect: The library and the algorithm.
        agent_cfg: The configuration.
        names: Fields of the recipe that the settings hold.

    Raises:
        UserError: If one is missing.
    """
    for setting in (dialect.settings[name] for name in names):
        for override in (setting.override, *setting.also):
            if read_setting(agent_cfg, override) is None:
                raise UserError(f"{override} is missing: {dialect.learner} needs it")


class ReplayTrainer(Trainer):
    """A training loop with a replay memory, of any library."""

    dialect: ClassVar[Dialect]
    """Names of the library and of the algorithm."""
    replay: ReplayMemory
    _random_steps: int
    """Steps of each environment with random actions."""
    _first_update: int
    """Steps of each environment before the first update."""

    @property
    def _plan(self) -> ReplayPlan:
        """The replay memory, and its updates."""
        assert self._batch.replay is not None
        return self._batch.replay

    def _require_continuous(self) -> None:
        """Refuse actions that are not continuous.

        Raises:
            UserError: If the task has other actions.
        """
        actions = self._env.unwrapped.single_action_space
        if not isinstance(actions, gym.spaces.Box):
            raise UserError(
                f"the task's actions are {actions}, and {self.dialect.learner} needs continuous actions: use "
                "--algorithm ppo"
            )

    def _require_memory(self, observation_bytes: int) -> None:
        """Refuse a replay memory that does not fit.

        Args:
            observation_bytes: Size of an observation in the memory, of all groups that the library stores [B].

        Raises:
            UserError: If it is too large in any process.
        """
        env = self._env.unwrapped
        actions = gym.spaces.flatdim(env.single_action_space)
        self._plan.require_memory(env.num_envs, observation_bytes, actions, torch.device(env.device), processes_here())

    def _beginnings(self) -> dict[str, int]:
        """Return the parts of a state that tell when random acting ends, and when updates begin."""
        return {_FIRST_UPDATE: self._first_update, _RANDOM_STEPS: self._random_steps}

    def _restore_beginnings(self, state: Mapping[str, Any]) -> None:
        """Take over these parts. If the replay memory is empty, the policy acts until the first update, as before it.

        Args:
            state: Result of :meth:`state`.
        """
        if len(self.replay):
            self._first_update, self._random_steps = state[_FIRST_UPDATE], state[_RANDOM_STEPS]
        else:
            done, steps = (count * self._batch.horizon for count in (self.iterations, self._batch.max_iterations))
            self._first_update, self._random_steps = self._plan.first_update(done, steps), 0
