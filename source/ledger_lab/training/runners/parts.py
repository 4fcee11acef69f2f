"""The parts of an environment's step that a profile times separately."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ledger_lab.ledger.meters.probes import Part

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def environment_parts(env: ManagerBasedRLEnv) -> list[Part]:
    """Return the physics, each manager, and each of their terms.

    Args:
        env: The environment, as ``gym.make`` returns it.
    """
    base: Any = env.unwrapped
    return [
        Part(base.action_manager, "process_action", "actions: process"),
        Part(base.action_manager, "apply_action", "actions: apply"),
        Part(base.scene, "write_data_to_sim", "write to physics"),
        Part(base.sim, "step", "physics step"),
        Part(base.scene, "update", "read from physics"),
        Part(base.termination_manager, "compute", "terminations"),
        Part(base.reward_manager, "compute", "rewards"),
        Part(base, "_reset_idx", "reset"),
        Part(base.curriculum_manager, "compute", "curriculum"),
        Part(base.scene, "reset", "scene reset"),
        Part(base.event_manager, "apply", "events"),
        Part(base.command_manager, "compute", "commands"),
        Part(base.observation_manager, "compute", "observations"),
        *_terms(base),
    ]


def _terms(base: Any) -> Iterator[Part]:
    """Return the terms of all managers, from private attributes: Isaac Lab has no public access to them."""
    for name, action in base.action_manager._terms.items():
        yield Part(action, "process_actions", name)
        yield Part(action, "apply_actions", name)
    for name, command in base.command_manager._terms.items():
        yield Part(command, "compute", name)
    named: list[tuple[str, Any]] = []
    for manager in (base.termination_manager, base.reward_manager, base.curriculum_manager):
        named += zip(manager._term_names, manager._term_cfgs, strict=True)
    observations, events = base.observation_manager, base.event_manager
    for group, names in observations._group_obs_term_names.items():
        named += zip((f"{group}.{name}" for name in names), observations._group_obs_term_cfgs[group], strict=True)
    for mode, names in events._mode_term_names.items():
        named += zip((f"{mode}: {name}" for name in names), events._mode_term_cfgs[mode], strict=True)
    for name, cfg in named:
        if not inspect.isclass(cfg.func):  # a class: the manager makes an object of it at first use
            yield Part(cfg, "func", name)
