"""What the adapters of all libraries check before they train with a replay memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import torch

from ledger_lab.errors import UserError
from ledger_lab.recipes.rules import positive
from ledger_lab.recipes.settings import read_setting

if TYPE_CHECKING:
    from ledger_lab.recipes import Dialect
    from ledger_lab.runners.adapter import BatchPlan

REFILLS = "the replay memory is not saved, and refills"
"""Why a training that was interrupted differs from an uninterrupted one."""


def _name_of(dialect: Dialect) -> str:
    """Return an algorithm of a library in prose, like ``SAC of SKRL``."""
    return f"{dialect.algorithm.upper()} of {dialect.title}"


def require_one_process(dialect: Dialect, reason: str) -> None:
    """Refuse several processes.

    Args:
        dialect: The library and the algorithm.
        reason: Why it trains in one process only, as the end of a sentence.

    Raises:
        UserError: If this is one of several processes.
    """
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise UserError(
            f"{_name_of(dialect)} trains in one process only, {reason}: leave out --nproc and --distributed"
        )


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


def require_update(dialect: Dialect, warm_up_steps: int, steps: int) -> None:
    """Refuse a training that would end before its first update.

    Args:
        dialect: The library and the algorithm.
        warm_up_steps: Steps before the first update.
        steps: Steps of the training.

    Raises:
        UserError: If it would.
    """
    if warm_up_steps >= steps:
        raise UserError(
            f"{dialect.overrides['warm_up_steps']} {warm_up_steps}: the training ends after {steps} steps, before its "
            "first update: lower it, or raise --max_iterations"
        )


def refill_steps(warm_up_steps: int, steps_left: int) -> int:
    """Return for how many steps an empty replay memory refills before a resumed training updates again.

    These are the steps before the first update, but at most half of the steps that are left. Otherwise, a training that
    is resumed near its end would learn nothing more.

    Args:
        warm_up_steps: Steps before the first update of a new training.
        steps_left: Steps that the training has left.
    """
    return min(warm_up_steps, steps_left // 2)


def short_refill(dialect: Dialect, agent_cfg: Any, steps_left: int) -> str | None:  # noqa: ANN401 - the library's own type
    """Tell why an empty replay memory refills for fewer steps than a new training would fill it.

    Args:
        dialect: The library and the algorithm.
        agent_cfg: The library's configuration.
        steps_left: Steps that the training has left.

    Returns:
        A sentence without a full stop; ``None`` if it does not, or if nothing is left to train.
    """
    setting = dialect.overrides["warm_up_steps"]
    usual = read_setting(agent_cfg, setting)
    steps = refill_steps(usual, steps_left)
    if steps == usual or not steps_left:
        return None
    return f"{steps_left} steps are left, so the replay memory refills for {steps} steps instead of {usual} ({setting})"


def require_room(dialect: Dialect, batch: BatchPlan, env: Any, stored_groups: Sequence[str]) -> None:  # noqa: ANN401 - the environment, or the part of it that the learner sees
    """Refuse actions that are not continuous, and a replay memory that does not fit.

    Args:
        dialect: The library and the algorithm.
        batch: The arithmetic of the updates.
        env: The environment.
        stored_groups: Observation groups that the library stores, if a task has them.

    Raises:
        UserError: If the task has other actions, or the memory is too large.
    """
    actions, groups = env.single_action_space, env.single_observation_space
    if not isinstance(actions, gym.spaces.Box):
        raise UserError(
            f"the task's actions are {actions}, and {_name_of(dialect)} needs continuous actions: use --algorithm ppo"
        )
    assert batch.replay is not None
    observed = sum(gym.spaces.flatdim(groups[name]) for name in stored_groups if name in groups.spaces)
    batch.replay.require_memory(env.num_envs, observed, gym.spaces.flatdim(actions), torch.device(env.device))
