"""Counts how training episodes end, by termination term."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from ledger_lab.ledger import UNSTABLE
from ledger_lab.training.runners.recorded_calls import replaced

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


class EpisodeEndings:
    """Number of training episodes that each termination term has ended.

    If several terms end an episode in the same step, the first of them counts, in the order of the configuration. If
    the physics became unstable in that step, the episode counts as ``unstable`` instead. Outcomes of held-out episodes
    follow the same rules.
    """

    def __init__(self, env: ManagerBasedRLEnv, training_slots: int) -> None:
        """Start with no episode ended.

        Args:
            env: The environment, as ``gym.make`` returns it.
            training_slots: Number of training slots; the slots after them are held out, and do not count.
        """
        self._manager, self._training_slots = env.unwrapped.termination_manager, training_slots
        tells = self._unstable() is not None
        self._names = [*self._manager.active_terms, *([UNSTABLE] if tells else [])]
        self._counts = self._ended_by().sum(dim=0).zero_()
        """Episodes per name since the last :meth:`take`; shape (names,), on the device of the environment."""

    @property
    def time_outs(self) -> frozenset[str]:
        """Names of the terms that are time-outs."""
        manager = self._manager
        return frozenset(name for name in manager.active_terms if manager.get_term_cfg(name).time_out)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the episodes that end inside the context. No step waits for the device."""
        compute = self._manager.compute

        def compute_and_count() -> torch.Tensor:
            done = compute()
            self._counts += self._ended_by().sum(dim=0)
            return done

        with replaced(self._manager, compute=compute_and_count):
            yield

    def take(self) -> dict[str, int]:
        """Return the number of episodes that each term has ended since the last call. Waits for the device.

        Returns:
            All terms in the order of the configuration, those that ended no episode included; and ``unstable`` if the
            physics tells which environments became unstable.
        """
        taken = dict.fromkeys(self._names, 0)
        for name, count in zip(self._names, self._counts.tolist(), strict=True):
            taken[name] += count  # a task may have a term of the name "unstable"
        self._counts.zero_()
        return taken

    def _ended_by(self) -> torch.Tensor:
        """Return what ended each training episode in this step; boolean tensor of shape (slots, names)."""
        fired = self._manager._term_dones[: self._training_slots]
        first = fired & (fired.cumsum(dim=1) == 1)
        unstable = self._unstable()
        if unstable is None:
            return first
        unstable = unstable[: self._training_slots, None]
        return torch.cat((first & ~unstable, unstable), dim=1)

    def _unstable(self) -> torch.Tensor | None:
        """Return which environments became unstable in the last step; ``None`` if the physics cannot tell."""
        ending = getattr(self._manager, "unstable", None)
        return None if ending is None else ending.last
