"""Protects held-out episodes from curricula: the task's terms keep their original configuration."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ledger_lab.errors import UserError

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


class ConfiguredTerms:
    """Remembers the original configuration of events, commands, and terms that are computed for all slots at once."""

    def __init__(self, base: ManagerBasedRLEnv) -> None:
        """Remember the configuration.

        Args:
            base: The environment, unwrapped, before any training step.
        """
        self._base = base
        self._configured = [copy.deepcopy(getattr(owner, name)) for owner, name in self._adjustable()]
        self._fixed = self._fixed_terms()

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Restore events and commands as they were configured, within the context."""
        found = [(owner, name, getattr(owner, name)) for owner, name in self._adjustable()]
        for (owner, name, _), configured in zip(found, self._configured, strict=True):
            setattr(owner, name, configured)
        try:
            yield
        finally:
            for owner, name, value in found:
                setattr(owner, name, value)

    def require_as_configured(self) -> None:
        """Refuse to score policies after a curriculum has changed a term that is computed for all slots at once.

        Raises:
            UserError: If a termination, an observation or an action is not as it was configured.
        """
        for name, now in self._fixed_terms().items():
            if now != self._fixed[name]:
                raise UserError(
                    f"a curriculum changed {name}, which training and held-out episodes share: change only events or "
                    "commands, or train with --no_eval and score with evaluate.py"
                )

    def _adjustable(self) -> list[tuple[Any, str]]:
        """Return what a curriculum may change: parameters of events, configurations of commands."""
        events = [(term, "params") for terms in self._base.event_manager._mode_term_cfgs.values() for term in terms]
        return [*events, *((command, "cfg") for command in self._base.command_manager._terms.values())]

    def _fixed_terms(self) -> dict[str, str]:
        """Return what a curriculum must not change, as texts to compare."""
        base = self._base
        fixed = {f"action {name!r}": repr(term.cfg) for name, term in base.action_manager._terms.items()}
        for index, term in enumerate(base.event_manager._mode_term_cfgs.get("interval", [])):
            fixed[f"interval of event {index}"] = repr(term.interval_range_s)
        for name in base.termination_manager.active_terms:
            fixed[f"termination {name!r}"] = repr(base.termination_manager.get_term_cfg(name).params)
        manager = base.observation_manager
        for group, terms in manager._group_obs_term_cfgs.items():
            for name, term in zip(manager.active_terms[group], terms, strict=True):
                fixed[f"observation {name!r}"] = repr((term.params, term.scale, term.clip))
        return fixed
