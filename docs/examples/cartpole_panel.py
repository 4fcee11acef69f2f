"""The held-out episodes of Gymnasium's CartPole that the examples of other trainers share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from ledger_lab.ledger import Outcomes
from ledger_lab.training.recording import RecordedPanel

TASK, EPISODES, TARGET = "CartPole-v1", 128, 0.9
PANEL = RecordedPanel(
    name="gymnasium_cartpole",
    seeds=range(1_000_000, 1_000_000 + EPISODES),  # training draws its episodes from other seeds
    definition={
        "environment": TASK,
        "gymnasium": gym.__version__,
        "success": "500 steps without falling or leaving the track",
        "policy_mode": "deterministic",
    },
)


def take(act: Callable[[Any], Any], seeds: Sequence[int]) -> Outcomes:
    """Let a policy play one held-out episode per seed.

    Args:
        act: Returns an action for each of some observations, of shape (observations, 4).
        seeds: Each fixes the start of its episode.
    """
    envs = [gym.make(TASK) for _ in seeds]
    states = np.stack([env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)])
    seen = [hashlib.sha256(state.tobytes()) for state in states]
    steps, lasted = [0] * len(envs), [False] * len(envs)
    running = list(range(len(envs)))
    while running:
        for index, action in zip(list(running), act(states[running]), strict=True):
            states[index], _, fell, over, _ = envs[index].step(action)
            seen[index].update(states[index].tobytes())
            steps[index] += 1
            if fell or over:
                lasted[index] = not fell
                running.remove(index)
    return Outcomes(
        cell=["nominal"] * len(envs),
        seed=list(seeds),
        success=lasted,
        success_any=lasted,
        steps=steps,
        episode_return=[float(count) for count in steps],  # CartPole pays 1 per step
        ended_by=["horizon" if success else "terminated" for success in lasted],
        fingerprint=[each.hexdigest()[:16] for each in seen],
    )
