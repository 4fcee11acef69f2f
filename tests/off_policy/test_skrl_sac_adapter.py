"""What SAC of SKRL has besides what all algorithms with a replay memory have."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ledger_lab.errors import UserError
from tests.fakes.off_policy import Training, adapter, translated


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A short training with normalized observations."""
    training = Training("sac", tmp_path_factory.mktemp("sac"), observation_normalization=True)
    training.train()
    return training


def test_the_distribution_of_the_policy_is_reported(trained: Training) -> None:
    assert {"entropy", "action_std"} <= set(trained.heard.figures[3])


def test_the_density_of_squashed_actions_is_right(trained: Training) -> None:
    inputs = {"observations": torch.zeros(40_000, 2)}
    with torch.no_grad():
        actions, outputs = trained.agent.policy.act(inputs, role="policy")
    shares, density = (actions / 2.0).squeeze(), outputs["log_prob"].exp().squeeze()
    assert float((1.0 / density).mean()) == pytest.approx(float(shares.max() - shares.min()), rel=0.2), (
        "∫ p · 1/p over where the samples lie"
    )


def test_a_saved_policy_acts_as_the_librarys_mean(trained: Training) -> None:
    path = trained.trainer._run_dir / trained.trainer.save().path
    policy = trained.adapter.load_policy(path, trained.env, trained.agent_cfg)
    groups = {"policy": torch.randn(32, 2)}
    seen = trained.agent._observation_preprocessor(groups["policy"])
    _, outputs = trained.agent.policy.act({"observations": seen}, role="policy")
    assert torch.equal(policy(groups), outputs["mean_actions"])
    assert policy(groups).abs().max() <= 2.0


def test_a_resumed_training_keeps_the_entropy_coefficient(trained: Training, tmp_path: Path) -> None:
    state = trained.trainer.state()
    resumed = Training("sac", tmp_path, iterations=5, observation_normalization=True)
    resumed.trainer.restore(state)
    assert torch.equal(resumed.trainer.state()["log_entropy_coefficient"], state["log_entropy_coefficient"])
    assert float(resumed.agent._entropy_coefficient) == pytest.approx(float(trained.agent._entropy_coefficient))


def test_the_librarys_own_target_of_the_entropy_is_refused() -> None:
    agent_cfg = translated("sac")
    agent_cfg["agent"]["target_entropy"] = None
    adapter("sac").prepare(agent_cfg, "cpu")
    agent_cfg["agent"]["target_entropy"] = -3.0
    with pytest.raises(UserError, match=r"agent.agent.target_entropy -3.0: .*: leave it out, and set agent.entropy_t"):
        adapter("sac").prepare(agent_cfg, "cpu")


def test_a_fixed_entropy_coefficient_is_refused() -> None:
    agent_cfg = translated("sac")
    agent_cfg["agent"]["learn_entropy"] = False
    with pytest.raises(UserError, match="agent.agent.learn_entropy False"):
        adapter("sac").prepare(agent_cfg, "cpu")
