"""Ends the episodes of environments whose physics became unstable.

MuJoCo calls a state unstable if a position, velocity or acceleration is not finite or is very large. It may also give
up with an error, or have no memory for all contacts and constraints. Such an environment stays where it was before the
step, without velocity. Its episode ends then, as if a termination of the task had ended it; of a held-out episode, it
is a failure with a name of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import warp as wp

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


class Unstable:
    """Tells which environments became unstable in the last step of the environment."""

    def __init__(self, env: ManagerBasedRLEnv) -> None:
        """Begin with none.

        Args:
            env: An environment with the physics ``newton/mujoco``, as ``gym.make`` returns it.
        """
        from isaaclab_newton.physics import NewtonManager

        stepper: Any = NewtonManager._solver.stepper
        self._status, self._bits = wp.to_torch(stepper.status), stepper.UNSTABLE
        self.last = torch.zeros(env.unwrapped.num_envs, dtype=torch.bool)
        """Boolean tensor of shape (num_envs,)."""

    def look(self) -> torch.Tensor:
        """Look at the steps since the last call; return :attr:`last`."""
        torch.ne(self._status & self._bits, 0, out=self.last)
        self._status &= ~self._bits
        return self.last


@contextmanager
def ended_when_unstable(env: ManagerBasedRLEnv) -> Iterator[None]:
    """End the episodes of unstable environments within the context.

    Args:
        env: An environment with the physics ``newton/mujoco``, as ``gym.make`` returns it.
    """
    manager, unstable = env.unwrapped.termination_manager, Unstable(env)
    compute = manager.compute

    def compute_terminations() -> torch.Tensor:
        done: torch.Tensor = compute()
        if unstable.look().any():
            manager._terminated_buf |= unstable.last
            manager._truncated_buf &= ~unstable.last  # nothing is expected after the end
            done = done | unstable.last
        return done

    manager.compute, manager.unstable = compute_terminations, unstable
    try:
        yield
    finally:
        del manager.compute, manager.unstable
