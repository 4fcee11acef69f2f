"""What TD3 of SKRL has besides what all algorithms with a replay memory have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.off_policy.skrl.noise import ExplorationNoise
from tests.fakes.off_policy import Training, adapter, translated


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A short training with normalized observations."""
    training = Training("td3", tmp_path_factory.mktemp("td3"), observation_normalization=True)
    training.train()
    return training


def seen_by(training: Training, groups: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return observations as inputs of the library's networks."""
    return {"observations": training.agent._observation_preprocessor(groups["policy"])}


def test_a_deterministic_policy_has_no_distribution_to_report(trained: Training) -> None:
    assert not {"entropy", "action_std", "kl"} & set(trained.heard.figures[3])


def test_a_saved_policy_acts_as_the_librarys_policy_without_noise(trained: Training) -> None:
    path = trained.trainer._run_dir / trained.trainer.save().path
    policy = trained.adapter.load_policy(path, trained.env, trained.agent_cfg)
    groups = {"policy": 100.0 * torch.randn(32, 2)}
    actions, _ = trained.agent.policy.act(seen_by(trained, groups), role="policy")
    assert torch.equal(policy(groups), actions)
    assert torch.equal(policy(groups), policy(groups))
    assert policy(groups).abs().max() <= 2.0


def test_the_target_policy_is_bounded_too(trained: Training) -> None:
    target = trained.agent.target_policy
    inputs = seen_by(trained, {"policy": torch.randn(32, 2)})
    raw, _ = target.compute(inputs, role="target_policy")
    actions, _ = target.act(inputs, role="target_policy")
    assert torch.allclose(actions, 2.0 * torch.tanh(raw))


def test_the_noise_follows_the_bound(trained: Training) -> None:
    agent = trained.agent
    low, high = trained.agent_cfg["exploration_noise"]
    std = agent._exploration_noise.std
    assert std.shape == (trained.env.num_envs, 1)
    assert float(std.min()) == pytest.approx(2.0 * low) and 2.0 * low < float(std.max()) <= 2.0 * high
    assert agent._smooth_regularization_noise.std.tolist() == [[pytest.approx(2.0 * 0.2)]]
    assert agent.cfg.smooth_regularization_clip == pytest.approx(2.0 * 0.5)


def test_noise_is_spread_over_environments_that_follow_one_another() -> None:
    torch.manual_seed(1)
    noise = ExplorationNoise(low=0.1, high=0.5, num_envs=4096, device=torch.device("cpu"))
    for block in noise.std.split(256):
        assert float(block.min()) < 0.11 and float(block.max()) > 0.49
        assert float(block.mean()) == pytest.approx(0.3, abs=0.01)
    drawn = torch.stack([noise.sample(torch.Size([4096, 3])) for _ in range(100)])
    assert torch.allclose(drawn.std(dim=(0, 2)), noise.std.squeeze(), rtol=0.25)


def test_noise_is_spread_over_the_environments_of_all_processes() -> None:
    def std(first: int, num_envs: int) -> torch.Tensor:
        return ExplorationNoise(low=0.1, high=0.5, num_envs=num_envs, first=first, device=torch.device("cpu")).std

    assert torch.equal(torch.cat([std(0, 32), std(32, 32)]), std(0, 64))


def test_the_same_noise_in_all_environments(tmp_path: Path) -> None:
    training = Training("td3", tmp_path, exploration_noise=(0.1, 0.1))
    assert training.agent._exploration_noise.std.unique().tolist() == pytest.approx([0.2])


def test_the_policy_is_updated_after_its_delay(tmp_path: Path) -> None:
    training = Training("td3", tmp_path, updates_per_step=1, policy_delay=100, iterations=2)
    before = [each.clone() for each in training.agent.policy.parameters()]
    training.train()
    assert training.agent._update_counter == 12, "after 20 of 32 steps"
    assert all(map(torch.equal, before, training.agent.policy.parameters()))
    assert "value_loss" in training.heard.figures[2]
    assert "policy_loss" not in training.heard.figures[2], "no update computed one"


def test_a_resumed_training_counts_the_updates_on(trained: Training, tmp_path: Path) -> None:
    state = trained.trainer.state()
    resumed = Training("td3", tmp_path, iterations=6, observation_normalization=True)
    resumed.trainer.restore(state)
    before = resumed.agent._update_counter
    assert before == trained.agent._update_counter > 0
    assert all(
        torch.equal(resumed.trainer.state()["target_policy"][name], value)
        for name, value in state["target_policy"].items()
    )
    resumed.train()
    assert resumed.agent._update_counter == before + 2 * 28, "two updates per step, after 20 of 48 steps"


def test_actions_are_not_rounded_to_half_precision(tmp_path: Path) -> None:
    training = Training("td3", tmp_path, iterations=2)
    training.agent.cfg.mixed_precision = True
    training.train()
    assert all(each.dtype == torch.float32 for each in training.env.actions)
    assert "value_loss" in training.heard.figures[2]


@pytest.mark.parametrize(
    ("group", "name", "value", "complaint"),
    [
        ("agent", "exploration_noise", "GaussianNoise", "leave it out, and set agent.exploration_noise, "),
        ("agent", "exploration_scheduler", "1.0", "leave it out, and set agent.exploration_noise, "),
        ("agent", "smooth_regularization_clip", 0.5, "smooth_regularization_clip 0.5: leave it out, and set "),
        (None, "exploration_noise", None, "agent.exploration_noise None: must be two finite numbers"),
        (None, "exploration_noise", [0.4, 0.1], "agent.exploration_noise .*: must be two .* the smaller one first"),
        (None, "target_noise", -1.0, "agent.target_noise -1.0: must be"),
    ],
)
def test_noise_that_cannot_be_used_is_refused(group: str | None, name: str, value: object, complaint: str) -> None:
    agent_cfg: Any = translated("td3")
    (agent_cfg if group is None else agent_cfg[group])[name] = value
    with pytest.raises(UserError, match=complaint):
        adapter("td3").prepare(agent_cfg, "cpu")


def test_a_configuration_without_a_target_policy_is_refused() -> None:
    agent_cfg = translated("td3")
    del agent_cfg["models"]["target_policy"]
    with pytest.raises(UserError, match="agent.models.target_policy is missing"):
        adapter("td3").prepare(agent_cfg, "cpu")
