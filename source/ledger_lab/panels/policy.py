"""A scored policy: a function from observations to actions, which may have a memory of the episode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch


@runtime_checkable
class MemoryPolicy(Protocol):
    """A policy that may have a memory, as its recurrent layers keep it."""

    def memory(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Return the memory at the start of episodes: zeros of shape (layers, rows, size); empty if it has none."""

    def __call__(self, groups: Mapping[str, torch.Tensor], *memory: torch.Tensor) -> Any:  # noqa: ANN401 - two kinds
        """Return actions; with a memory, a tuple of the actions and the next memory."""


type Policy = Callable[[Mapping[str, torch.Tensor]], torch.Tensor] | MemoryPolicy
"""Deterministic actions of shape (n, actions) for observation groups of shape (n, ...)."""


class Acting:
    """A policy in the episodes of some rows, all of which begin with its first call."""

    def __init__(self, policy: Policy) -> None:
        """Begin without a memory.

        Args:
            policy: The policy.
        """
        self._policy: Any = policy
        self._memory: tuple[torch.Tensor, ...] | None = None

    def __call__(self, observations: Any) -> torch.Tensor:  # noqa: ANN401 - as the policy takes them
        """Return actions of shape (rows, actions) for the next observations of the same rows."""
        if self._memory is None:
            rows = next(leaves(observations)).shape[0]
            self._memory = self._policy.memory(rows) if isinstance(self._policy, MemoryPolicy) else ()
        actions: torch.Tensor
        if not self._memory:
            actions = self._policy(observations)
        else:
            actions, *memory = self._policy(observations, *self._memory)
            self._memory = tuple(memory)
        return actions

    def forget(self, begins: torch.Tensor) -> None:
        """Clear the memory of rows in which an episode begins.

        Args:
            begins: Shape (rows,).
        """
        self._memory = self._memory and tuple(each.masked_fill(begins[None, :, None], 0.0) for each in self._memory)


def leaves(observations: Any) -> Iterator[torch.Tensor]:
    """Yield all tensors of observation groups."""
    if isinstance(observations, Mapping):
        for group in observations.values():
            yield from leaves(group)
    else:
        yield observations
