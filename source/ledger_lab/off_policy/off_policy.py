"""What the adapters of all libraries check before they train with a replay memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import torch

from ledger_lab.errors import UserError
from ledger_lab.tasks.recipes.rules import positive
from ledger_lab.tasks.recipes.settings import read_setting
from ledger_lab.training.runners.collectives import processes_here

if TYPE_CHECKING:
    from ledger_lab.tasks.recipes import Dialect
    from ledger_lab.training.runners.adapter import BatchPlan

FIRST_UPDATE, RANDOM_STEPS = "first_update", "random_steps"
"""Parts of a state: the steps of each environment before the first update, and those with random actions."""


def require_one_process(dialect: Dialect) -> None:
    """Refuse several processes.

    Args:
        dialect: A library and an algorithm that train in one process only.

    Raises:
        UserError: If this is one of several processes.
    """
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise UserError(
            f"{dialect.learner} trains in one process only, {dialect.one_process_reason}: leave out --nproc and "
            "--distributed, or use --rl_library skrl"
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


def first_update(warm_up_steps: int, done: int, steps: int) -> int:
    """Return the step after which a training updates first that is resumed with an empty replay memory.

    The memory refills for as many steps as come before the first update of a new training, but for at most half of the
    steps that are left. Otherwise, a training that is resumed near its end would learn nothing more. No update comes
    earlier than in a new training.

    Args:
        warm_up_steps: Steps before the first update of a new training.
        done: Steps before the interruption.
        steps: Steps of the whole training.
    """
    return max(warm_up_steps, done + min(warm_up_steps, (steps - done) // 2))


def short_refill(dialect: Dialect, agent_cfg: Any, batch: BatchPlan, iterations: int) -> str | None:  # noqa: ANN401 - the library's own type
    """Tell why an empty replay memory refills for fewer steps than a new training would fill it.

    Args:
        dialect: The library and the algorithm.
        agent_cfg: The library's configuration.
        batch: The arithmetic of the updates.
        iterations: Iterations before the interruption.

    Returns:
        A sentence without a full stop; ``None`` if it does not, if the first update comes as in a new training, or if
        nothing is left to train.
    """
    setting = dialect.overrides["warm_up_steps"]
    done, steps = iterations * batch.horizon, batch.max_iterations * batch.horizon
    usual, left = read_setting(agent_cfg, setting), steps - done
    first = first_update(usual, done, steps)
    if first in (usual, done + usual) or not left:
        return None
    return (
        f"{left} steps are left, so the replay memory refills for {first - done} steps instead of {usual} ({setting})"
    )


def require_continuous(dialect: Dialect, env: Any) -> None:  # noqa: ANN401 - the environment, or the part of it that the learner sees
    """Refuse actions that are not continuous.

    Args:
        dialect: The library and the algorithm.
        env: The environment.

    Raises:
        UserError: If the task has other actions.
    """
    if not isinstance(actions := env.single_action_space, gym.spaces.Box):
        raise UserError(
            f"the task's actions are {actions}, and {dialect.learner} needs continuous actions: use --algorithm ppo"
        )


def require_room(batch: BatchPlan, env: Any, observation_bytes: int) -> None:  # noqa: ANN401 - see above
    """Refuse a replay memory that does not fit.

    Args:
        batch: The arithmetic of the updates.
        env: The environment.
        observation_bytes: Size of an observation in the memory, of all groups that the library stores [B].

    Raises:
        UserError: If it is too large in any process.
    """
    assert batch.replay is not None
    actions = gym.spaces.flatdim(env.single_action_space)
    batch.replay.require_memory(env.num_envs, observation_bytes, actions, torch.device(env.device), processes_here())
