"""The memory that a replay memory needs, checked before it is filled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.memory_limits import usable_bytes

if TYPE_CHECKING:
    import torch

FLOAT_BYTES = 4
"""Size of a number, unless it is one of an image of bytes."""
_PRIORITY_BYTES = 9
"""A priority of 64 bits, and its part of the sums, rounded up."""
_RESERVED = 0.1
"""Share of the free memory that is kept for networks, their optimizers, batches and policies that are judged."""
_LARGEST_INDEX = 2**31 - 1
"""Largest index that 32 bits hold."""


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
    prioritized: bool = False
    """Whether transitions are drawn by their priorities."""
    on_host: bool = False
    """Whether the host holds it if the training is on a GPU."""
    host_setting: str | None = None
    """Setting of the agent's configuration for :attr:`on_host`; ``None`` if the library has none."""

    def require_update(self, steps: int, *, overlaps: bool) -> None:
        """Refuse a training that would end before its first update.

        Args:
            steps: Steps of the training.
            overlaps: Whether an update runs beside the next step.

        Raises:
            UserError: If it would.
        """
        due = -(-(self.warm_up_steps + 1) // self.update_every) * self.update_every
        if due + overlaps > steps:
            beside = ", which needs another step to run beside" if due == steps else ""
            raise UserError(
                f"{self.warm_up_setting} {self.warm_up_steps}: the training ends after {steps} steps, before its first "
                f"update{beside}: lower it, or raise --max_iterations"
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
        rows = (self.steps + 1) * num_envs
        each = num_envs * bytes_per_transition(observation_bytes, actions, rows, prioritized=self.prioritized)
        newest = num_envs * observation_bytes
        needed = self.steps * each + newest
        free = _free_bytes(held_by, processes)
        usable = round((1 - _RESERVED) * free)
        if needed <= usable:
            return
        shared = f" for each of {processes} processes" if held_by == "cpu" and processes > 1 else ""
        host = held_by.startswith("cuda") and self.host_setting is not None
        raise UserError(
            f"{self.setting} {self.steps}: a replay memory of {self.steps} steps × {num_envs} environments × "
            f"{each // num_envs} bytes needs {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB of {held_by} are "
            f"free{shared}, of which {100 * _RESERVED:.0f} % are kept for networks and batches: there is room for "
            f"{max(0, usable - newest) // each} steps"
            + (f"; {self.host_setting}=true uses the memory of the host" if host else "")
        )


def _free_bytes(device: str, processes: int) -> int:
    """Return the memory of a device that is free for a process [B]: the least that any process of the training has.

    Args:
        device: The device.
        processes: Processes on this machine.
    """
    import torch

    from ledger_lab.training.runners.collectives import largest_of_all_processes

    free = torch.cuda.mem_get_info(device)[0] if device.startswith("cuda") else usable_bytes() // processes
    return -int(largest_of_all_processes(torch.tensor(-free)))


def bytes_per_transition(observation_bytes: int, actions: int, rows: int, *, prioritized: bool = False) -> int:
    """Return the size of a transition in :class:`ledger_lab.off_policy.replay_memory.ReplayMemory`.

    It holds the observation, the action, the reward, whether the episode was terminated, the index of the next
    observation, and its priority.

    Args:
        observation_bytes: Size of an observation: 4 bytes for each number, 1 for each number of an image of bytes.
        actions: Numbers in an action.
        rows: Observations that the memory holds; indices of many observations are longer.
        prioritized: Whether it holds priorities.
    """
    priority = _PRIORITY_BYTES if prioritized else 0
    return observation_bytes + FLOAT_BYTES * (actions + 1) + 1 + index_bytes(rows) + priority


def index_bytes(rows: int) -> int:
    """Return the size of an index of an observation in a replay memory: 4 or 8.

    Args:
        rows: Observations that it holds.
    """
    return 4 if rows <= _LARGEST_INDEX else 8
