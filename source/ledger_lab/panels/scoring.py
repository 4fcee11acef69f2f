"""Scoring any number of policies on a panel in one pass of one simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from ledger_lab.ledger import Outcomes
from ledger_lab.panels.episodes import EpisodeProbe, StartTable
from ledger_lab.panels.panel import Panel
from ledger_lab.panels.seedable import require_seedable

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def score_policies(
    env: ManagerBasedRLEnv,
    panel: Panel,
    policies: Sequence[Callable[[Mapping[str, torch.Tensor]], torch.Tensor]],
    on_step: Callable[[], None] = lambda: None,
) -> list[Outcomes]:
    """Let every policy take every episode of a panel exactly once.

    Slot ``k * episodes + e`` holds episode ``e`` of policy ``k``. Each policy sees a batch of its own episodes alone,
    so that its outcomes don't depend on who else is scored. Where the environment has too few slots for all policies,
    the rest follow in further rounds.

    Args:
        env: An environment with a multiple of the panel's episodes as slots, as ``gym.make`` returns it.
        panel: The panel.
        policies: Deterministic policies.
        on_step: Called after each step.

    Returns:
        The outcomes of each policy.

    Raises:
        UserError: If the task's episodes can't be fixed by a seed, or the success function is missing.
        ValueError: If the number of slots does not fit.
    """
    base = env.unwrapped
    episodes = len(panel.episodes)
    places, rest = divmod(base.num_envs, episodes)
    if rest or not places:
        raise ValueError(f"{base.num_envs} slots are no multiple of {episodes} episodes")
    require_seedable(base.cfg)
    outcomes: list[Outcomes] = []
    with torch.inference_mode():
        env.reset()
        starts = StartTable(env, panel)
        for first in range(0, len(policies), places):
            chosen = policies[first : first + places]
            starts.write(env, places)
            outcomes += _one_round(env, panel, chosen, places, on_step)
    return outcomes


def _one_round(
    env: ManagerBasedRLEnv,
    panel: Panel,
    policies: Sequence[Callable[[Mapping[str, torch.Tensor]], torch.Tensor]],
    places: int,
    on_step: Callable[[], None],
) -> list[Outcomes]:
    """Run one episode per slot; in the last round some places may stay empty, their slots do nothing."""
    base, episodes = env.unwrapped, len(panel.episodes)
    idle = torch.zeros((places - len(policies)) * episodes, base.action_manager.total_action_dim, device=base.device)
    probe = EpisodeProbe(env, panel)
    try:
        observations = base.obs_buf
        while probe.running:
            actions = [
                policy({name: group[k * episodes : (k + 1) * episodes] for name, group in observations.items()})
                for k, policy in enumerate(policies)
            ]
            observations, rewards, *_ = env.step(torch.cat([*actions, idle]))
            probe.after_step(observations, rewards)
            on_step()
    finally:
        probe.detach()
    return [probe.outcomes(k * episodes) for k in range(len(policies))]
