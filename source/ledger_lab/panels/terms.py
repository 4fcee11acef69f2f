"""The terms of a task, as Isaac Lab's managers hold them, with their names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def events(base: ManagerBasedRLEnv, mode: str) -> list[tuple[str, Any]]:
    """Return names and configurations of the events of a mode.

    Args:
        base: The environment, unwrapped.
        mode: When the events run: ``startup``, ``reset`` or ``interval``.
    """
    manager = base.event_manager
    return list(zip(manager.active_terms.get(mode, []), manager._mode_term_cfgs.get(mode, []), strict=True))


def terminations(base: ManagerBasedRLEnv) -> list[tuple[str, Any]]:
    """Return names and configurations of the terminations."""
    manager = base.termination_manager
    return [(name, manager.get_term_cfg(name)) for name in manager.active_terms]


def observations(base: ManagerBasedRLEnv) -> list[tuple[str, Any]]:
    """Return names and configurations of the observations; a name may be in several groups."""
    manager = base.observation_manager
    return [
        each
        for group, terms in manager._group_obs_term_cfgs.items()
        for each in zip(manager.active_terms[group], terms, strict=True)
    ]


@dataclass(frozen=True)
class Place:
    """Where a term is among the observations."""

    group: str
    part: slice | str
    """Columns of the group, or the name of the term in it."""
    width: int
    """Numbers per slot."""


def observed(base: ManagerBasedRLEnv) -> Iterator[tuple[str, Place]]:
    """Yield the names of the observations, and where policies see them."""
    manager = base.observation_manager
    for group, names in manager.active_terms.items():
        begin = 0
        for name, shape in zip(names, manager.group_obs_term_dim[group], strict=True):
            width = int(np.prod(shape))
            yield (
                name,
                Place(group, slice(begin, begin + width) if manager.group_obs_concatenate[group] else name, width),
            )
            begin += width


def functions(base: ManagerBasedRLEnv) -> list[Any]:
    """Return the functions and objects of all terms."""
    terms = [term for each in base.event_manager._mode_term_cfgs.values() for term in each]
    terms += [term for _, term in observations(base)]
    for manager in (base.reward_manager, base.termination_manager, base.curriculum_manager):
        terms += manager._term_cfgs
    own = [*base.action_manager._terms.values(), *base.command_manager._terms.values()]
    return [*own, *(term.func for term in terms)]
