"""Counts how training episodes end, by termination term."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from isaaclab.envs import ManagerBasedRLEnv


class EpisodeEndings:
    """Number of training episodes that each termination term has ended.

    If several terms end an episode in the same step, the first of them counts, in the order of the configuration.
    Outcomes of held-out episodes follow the same rule.
    """

    def __init__(self, env: ManagerBasedRLEnv, training_slots: int) -> None:
        """Start with no episode ended.

        Args:
            env: The environment, as ``gym.make`` returns it.
            training_slots: Number of training slots; the slots after them are held out, and do not count.
        """
        self._manager, self._training_slots = env.unwrapped.termination_manager, training_slots
        self._counts = self._first_terms().sum(dim=0).zero_()
        """Episodes per term since the last :meth:`take`; shape (terms,), on the device of the environment."""

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
            self._counts += self._first_terms().sum(dim=0)
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
            All terms in the order of the configuration, those that ended no episode included.
        """
        taken = dict(zip(self._manager.active_terms, self._counts.tolist(), strict=True))
        self._counts.zero_()
        return taken

    def _first_terms(self) -> torch.Tensor:
        """Return which term ended each training episode in this step; boolean tensor of shape (slots, terms)."""
        fired = self._manager._term_dones[: self._training_slots]
        return fired & (fired.cumsum(dim=1) == 1)
