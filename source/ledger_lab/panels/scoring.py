"""Scoring any number of policies on a panel in one pass of one simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from ledger_lab.ledger import Outcomes
from ledger_lab.panels.episodes import EpisodeProbe, StartTable, require_seedable
from ledger_lab.panels.panel import Panel

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def score_policies(
    env: ManagerBasedRLEnv,
    panel: Panel,
    policies: Sequence[Callable[[Mapping[str, torch.Tensor]], torch.Tensor]],
    on_step: Callable[[int], None] = lambda step: None,
) -> list[Outcomes]:
    """Let every policy take every episode of a panel exactly once.

    Slot ``k * episodes + e`` holds episode ``e`` of policy ``k``. Each policy sees a batch of its own episodes alone,
    so that its outcomes don't depend on who else is scored.

    Args:
        env: An environment with one slot per policy and episode, as ``gym.make`` returns it.
        panel: The panel.
        policies: Deterministic policies.
        on_step: Called after each step with the number of steps done.

    Returns:
        The outcomes of each policy.

    Raises:
        UserError: If the task's episodes can't be fixed by a seed, or the success function is missing.
        ValueError: If the number of slots does not fit.
    """
    base = env.unwrapped
    episodes = len(panel.episodes)
    if base.num_envs != episodes * len(policies):
        raise ValueError(f"{base.num_envs} slots for {len(policies)} policies times {episodes} episodes")
    with torch.inference_mode():
        env.reset()
        require_seedable(env)
        StartTable(env, panel).write(env, len(policies))
        probe = EpisodeProbe(env, panel)
        try:
            observations = base.obs_buf
            while probe.running:
                actions = [
                    policy({name: group[k * episodes : (k + 1) * episodes] for name, group in observations.items()})
                    for k, policy in enumerate(policies)
                ]
                observations, rewards, *_ = env.step(torch.cat(actions))
                probe.after_step(observations, rewards)
                on_step(probe.steps_done)
        finally:
            probe.detach()
    return [probe.outcomes(k * episodes) for k in range(len(policies))]
