"""What SAC and TD3 of SKRL have besides what all algorithms with a replay memory have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.off_policy.skrl.adapter import ExplorationNoise
from ledger_lab.off_policy.skrl.dialect import CRITICS
from tests.fakes.off_policy import OPTIONS, RECIPES, Training, adapter, translated

each_algorithm = pytest.mark.parametrize("algorithm", RECIPES)


@pytest.fixture(scope="module")
def sac(tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A short training with normalized observations."""
    training = Training("sac", tmp_path_factory.mktemp("sac"), observation_normalization=True)
    training.train()
    return training


@pytest.fixture(scope="module")
def td3(tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A short training with normalized observations, and with all options."""
    training = Training("td3", tmp_path_factory.mktemp("td3"), observation_normalization=True, **OPTIONS)
    training.train()
    return training


def loaded(training: Training) -> Any:  # noqa: ANN401 - an acting module
    """Return the policy of the last checkpoint."""
    path = training.trainer._run_dir / training.trainer.save().path
    return training.adapter.load_policy(path, training.env, training.agent_cfg)


def seen_by(training: Training, groups: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return observations as inputs of the library's networks."""
    return {"observations": training.agent._observation_preprocessor(groups["policy"])}


def test_the_density_of_squashed_actions_is_right(sac: Training) -> None:
    inputs = {"observations": torch.zeros(40_000, 2)}
    with torch.no_grad():
        actions, outputs = sac.agent.policy.act(inputs, role="policy")
    shares, density = (actions / 2.0).squeeze(), outputs["log_prob"].exp().squeeze()
    assert float((1.0 / density).mean()) == pytest.approx(float(shares.max() - shares.min()), rel=0.2), (
        "∫ p · 1/p over where the samples lie"
    )


def test_a_saved_policy_acts_as_the_librarys_without_noise(sac: Training, td3: Training) -> None:
    groups = {"policy": 100.0 * torch.randn(32, 2)}
    _, outputs = sac.agent.policy.act(seen_by(sac, groups), role="policy")
    actions, _ = td3.agent.policy.act(seen_by(td3, groups), role="policy")
    for training, expected in ((sac, outputs["mean_actions"]), (td3, actions)):
        policy = loaded(training)
        assert torch.equal(policy(groups), expected) and torch.equal(policy(groups), policy(groups))
        assert policy(groups).abs().max() <= 2.0


def test_the_noise_follows_the_bound(td3: Training) -> None:
    agent = td3.agent
    low, high = td3.agent_cfg["exploration_noise"]
    std = agent._exploration_noise.std
    assert std.shape == (td3.env.num_envs, 1)
    assert float(std.min()) == pytest.approx(2.0 * low) and 2.0 * low < float(std.max()) <= 2.0 * high
    assert agent._smooth_regularization_noise.std.tolist() == [[pytest.approx(2.0 * 0.2)]]
    assert agent.cfg.smooth_regularization_clip == pytest.approx(2.0 * 0.5)


def test_noise_is_spread_over_the_environments_of_all_processes() -> None:
    def noise(first: int, num_envs: int) -> ExplorationNoise:
        return ExplorationNoise(low=0.1, high=0.5, num_envs=num_envs, first=first, device=torch.device("cpu"))

    torch.manual_seed(1)
    whole = noise(0, 4096)
    assert torch.equal(torch.cat([noise(0, 2048).std, noise(2048, 2048).std]), whole.std)
    for block in whole.std.split(256):
        assert float(block.min()) < 0.11 and float(block.max()) > 0.49
        assert float(block.mean()) == pytest.approx(0.3, abs=0.01)
    drawn = torch.stack([whole.sample(torch.Size([4096, 3])) for _ in range(100)])
    assert torch.allclose(drawn.std(dim=(0, 2)), whole.std.squeeze(), rtol=0.25)


def test_sums_of_rewards_are_discounted_by_their_lengths(td3: Training) -> None:
    lengths = td3.agent.cfg.discount_factor.log() / torch.tensor(0.99).log()
    assert {2.0, 3.0} <= {round(length, 2) for length in lengths.flatten().tolist()} <= {1.0, 2.0, 3.0}
    assert td3.agent.cfg.discount_factor.shape == (16, 1)


@each_algorithm
def test_updates_may_be_due_at_some_steps_only(algorithm: str, tmp_path: Path) -> None:
    steps: list[int] = []
    training = Training(algorithm, tmp_path, iterations=3, update_every=4)
    update = training.trainer._library["update"]
    training.trainer._library["update"] = lambda **when: (steps.append(when["timestep"]), update(**when))
    training.train()
    assert steps == [23, 27, 31, 35, 39, 43, 47], "of 48 steps, from step 20 on"
    plan = training.adapter.plan(training.agent_cfg)
    assert (plan.minibatches, plan.effective_batch(16)) == (4 * 2, 4 * 2 * 16)
    with pytest.raises(UserError, match="update_every 5: agent.agent.experiment.write_interval 16 is not a multiple"):
        Training(algorithm, tmp_path / "odd", update_every=5)


@each_algorithm
def test_only_the_networks_that_are_named_have_normalized_layers(algorithm: str, tmp_path: Path) -> None:
    training = Training(algorithm, tmp_path, critic_layer_norm=True, hidden_dims=(8, 4))
    for role, model in training.agent.models.items():
        found = sum(isinstance(module, torch.nn.LayerNorm) for module in model.modules())
        assert found == (2 if role in CRITICS else 0)
    for critic, target in zip(CRITICS[:2], CRITICS[2:], strict=True):
        pair = (training.agent.models[role].parameters() for role in (critic, target))
        assert all(map(torch.equal, *pair))


@pytest.mark.parametrize(
    ("algorithm", "name", "value", "complaint"),
    [
        ("sac", "target_entropy", -3.0, "target_entropy -3.0: .*: leave it out, and set agent.entropy_t"),
        ("sac", "learn_entropy", False, "agent.agent.learn_entropy False"),
        ("td3", "exploration_noise_kwargs", {}, "leave it out, and set agent.exploration_noise, "),
        ("td3", "smooth_regularization_clip", 0.5, "smooth_regularization_clip 0.5: leave it out, and set "),
    ],
)
def test_the_librarys_own_settings_that_would_be_misread_are_refused(
    algorithm: str, name: str, value: object, complaint: str
) -> None:
    agent_cfg, learner = translated(algorithm), adapter(algorithm)
    agent_cfg["agent"][name] = value
    with pytest.raises(UserError, match=complaint):
        learner.prepare(agent_cfg, "cpu")
