"""Counts how training episodes end, by termination term or by unstable physics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from ledger_lab.ledger import UNSTABLE
from ledger_lab.native.unstable import unstable_environments

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


class EpisodeEndings:
    """Number of training episodes that each termination term has ended, and unstable physics where it can tell.

    If several terms end an episode in the same step, the first of them counts, in the order of the configuration.
    Unstable physics comes before all terms. Outcomes of held-out episodes follow the same rule.
    """

    def __init__(self, env: ManagerBasedRLEnv, training_slots: int) -> None:
        """Start with no episode ended.

        Args:
            env: The environment, as ``gym.make`` returns it.
            training_slots: Number of training slots; the slots after them are held out, and do not count.
        """
        self._manager, self._training_slots = env.unwrapped.termination_manager, training_slots
        self._unstable = unstable_environments(env)  # written by the environment in each step
        self._names = [*([] if self._unstable is None else [UNSTABLE]), *self._manager.active_terms]
        self._counts = self._first_ends().sum(dim=0).zero_()
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
        own = "compute" in vars(self._manager)

        def compute_and_count() -> torch.Tensor:
            done = compute()
            self._counts += self._first_ends().sum(dim=0)
            return done

        self._manager.compute = compute_and_count
        try:
            yield
        finally:
            if own:
                self._manager.compute = compute
            else:
                del self._manager.compute

    def take(self) -> dict[str, int]:
        """Return the number of episodes that each term has ended since the last call. Waits for the device.

        Returns:
            ``unstable`` if the physics can tell, and all terms in the order of the configuration, those that ended no
            episode included.
        """
        taken: dict[str, int] = {}
        for name, count in zip(self._names, self._counts.tolist(), strict=True):
            taken[name] = taken.get(name, 0) + count  # a task may have a term of that name
        self._counts.zero_()
        return taken

    def _first_ends(self) -> torch.Tensor:
        """Return what ended each training episode in this step; boolean tensor of shape (slots, names)."""
        fired = self._manager._term_dones[: self._training_slots]
        if self._unstable is not None:
            fired = torch.cat([self._unstable[: self._training_slots].unsqueeze(1), fired], dim=1)
        return fired & (fired.cumsum(dim=1) == 1)
