"""Rewards are divided by the spread of the discounted returns so far."""

from __future__ import annotations

import pytest
import torch

from ledger_lab.off_policy.reward_scale import RewardScale


def watched(steps: int, size: float = 1.0) -> tuple[RewardScale, list[float]]:
    """Return a scale that has seen random rewards, and the discounted sums that a plain loop finds."""
    torch.manual_seed(2)
    scale, sums, returns = RewardScale(3, 0.9, torch.device("cpu")), [0.0] * 3, []
    for _ in range(steps):
        rewards, ended = size * torch.rand(3, 1), torch.rand(3, 1) < 0.1
        scale.update(rewards, ended)
        for env in range(3):
            sums[env] = 0.9 * sums[env] + float(rewards[env])
            returns.append(sums[env])
            sums[env] = 0.0 if ended[env] else sums[env]
    return scale, returns


def test_the_scale_is_the_standard_deviation_of_the_returns() -> None:
    scale, returns = watched(2000)
    expected = torch.tensor(returns).std()
    assert float(scale(torch.tensor(1.0))) == pytest.approx(float(1.0 / expected), rel=0.01)


def test_scaled_returns_hardly_depend_on_the_size_of_the_rewards() -> None:
    scaled = [float(scale(torch.tensor(size))) for size in (0.01, 100.0) for scale, _ in [watched(2000, size)]]
    assert scaled[0] == pytest.approx(scaled[1], rel=0.2)


def test_a_return_that_is_far_larger_limits_the_scale() -> None:
    scale = RewardScale(100, 0.9, torch.device("cpu"))
    rewards = torch.zeros(100, 1)
    rewards[0] = 1000.0
    for _ in range(100):
        scale.update(torch.zeros(100, 1), torch.ones(100, 1, dtype=torch.bool))
    scale.update(rewards, torch.ones(100, 1, dtype=torch.bool))
    assert float(scale(torch.tensor(1000.0))) == pytest.approx(10.0)


def test_a_single_environment_has_a_scale() -> None:
    scale = RewardScale(1, 0.9, torch.device("cpu"))
    for _ in range(5):
        scale.update(torch.ones(1, 1), torch.zeros(1, 1, dtype=torch.bool))
    assert torch.isfinite(scale(torch.ones(1)))


def test_a_restored_scale_goes_on_alike() -> None:
    one, _ = watched(20)
    other = RewardScale(3, 0.9, torch.device("cpu"))
    other.load_state_dict(one.state_dict())
    other.returns = one.returns.clone()
    for scale in (one, other):
        torch.manual_seed(7)
        for _ in range(5):
            scale.update(torch.rand(3, 1), torch.rand(3, 1) < 0.3)
    assert torch.equal(one(torch.ones(4)), other(torch.ones(4)))
