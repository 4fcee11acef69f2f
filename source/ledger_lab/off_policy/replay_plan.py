"""A replay memory and the updates that use it: what is checked in all libraries, and how a training resumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium as gym
import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.memory_limits import usable_bytes
from ledger_lab.off_policy.replay_memory import ReplayMemory, index_bytes
from ledger_lab.tasks.recipes import Dialect
from ledger_lab.tasks.recipes.rules import positive
from ledger_lab.training.runners.adapter import Trainer
from ledger_lab.training.runners.collectives import largest_of_all_processes, processes_here

FLOAT_BYTES = 4
"""Size of a number, unless it is one of an image of bytes."""
_RESERVED = 0.1
"""Share of the free memory that is kept for networks, their optimizers, batches and policies that are judged."""
_FIRST_UPDATE, _RANDOM_STEPS = "first_update", "random_steps"
"""Parts of a state: the steps of each environment before the first update, and those with random actions."""


@dataclass(frozen=True, kw_only=True)
class ReplayPlan:
    """A replay memory, and the updates that use it."""

    steps: int
    """Steps of each environment that it holds."""
    setting: str
    """Setting of the agent's configuration for the steps."""
    warm_up_steps: int
    """Steps before the first update."""
    warm_up_setting: str
    """Setting of the agent's configuration for them."""
    batch_size: int
    """Transitions per gradient step that each process draws."""
    updates_per_step: int
    """Gradient steps after each step of all environments at which an update is due."""
    update_every: int = 1
    """Steps from one such step to the next."""
    on_host: bool = False
    """Whether the host holds it if the training is on a GPU."""
    host_setting: str | None = None
    """Setting of the agent's configuration for :attr:`on_host`; ``None`` if the library has none."""

    def require_update(self, steps: int) -> None:
        """Refuse a training that would end before its first update.

        Args:
            steps: Steps of the training.

        Raises:
            UserError: If it would.
        """
        if -(-(self.warm_up_steps + 1) // self.update_every) * self.update_every > steps:
            raise UserError(
                f"{self.warm_up_setting} {self.warm_up_steps}: the training ends after {steps} steps, before its first "
                "update: lower it, or raise --max_iterations"
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

    def short_refill(self, done: int, steps: int) -> str | None:
        """Tell why an empty replay memory refills for fewer steps than a new training would fill it.

        Args:
            done: Steps before the interruption.
            steps: Steps of the whole training.

        Returns:
            A sentence without a full stop; ``None`` if it does not, if the first update comes as in a new training, or
            if nothing is left to train.
        """
        usual, left, first = self.warm_up_steps, steps - done, self.first_update(done, steps)
        if first in (usual, done + usual) or not left:
            return None
        return (
            f"{left} steps are left, so the replay memory refills for {first - done} steps instead of {usual} "
            f"({self.warm_up_setting})"
        )

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
        held_by = "cpu" if self.on_host else str(device)
        on_gpu = held_by.startswith("cuda")
        each = num_envs * bytes_per_transition(observation_bytes, actions, (self.steps + 1) * num_envs)
        newest = num_envs * observation_bytes
        needed = self.steps * each + newest
        free = torch.cuda.mem_get_info(held_by)[0] if on_gpu else usable_bytes() // processes
        free = -int(largest_of_all_processes(torch.tensor(-free)))  # the least that any process has
        usable = round((1 - _RESERVED) * free)
        if needed <= usable:
            return
        shared = f" for each of {processes} processes" if held_by == "cpu" and processes > 1 else ""
        raise UserError(
            f"{self.setting} {self.steps}: a replay memory of {self.steps} steps × {num_envs} environments × "
            f"{each // num_envs} bytes needs {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB of {held_by} are "
            f"free{shared}, of which {100 * _RESERVED:.0f} % are kept for networks and batches: there is room for "
            f"{max(0, usable - newest) // each} steps"
            + (f"; {self.host_setting}=true uses the memory of the host" if on_gpu and self.host_setting else "")
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


def require_bound(dialect: Dialect, bound: Any) -> None:  # noqa: ANN401 - whatever stands in a configuration
    """Refuse actions without a bound.

    Args:
        dialect: The library and the algorithm.
        bound: Largest absolute value of an action.

    Raises:
        UserError: If it is no positive, finite number.
    """
    if wrong := positive(bound):
        raise UserError(
            f"{dialect.overrides['action_bound']} {bound!r}: {wrong}: Isaac Lab's action spaces have no bounds"
        )


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

    def short_refill(self, iterations: int) -> str | None:
        """Tell why the empty memory refills for fewer steps than usual."""
        done, steps = (count * self._batch.horizon for count in (iterations, self._batch.max_iterations))
        return None if len(self.replay) else self._plan.short_refill(done, steps)
