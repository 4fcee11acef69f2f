"""What LedgerLab adds to SAC and TD3 of SKRL: several rewards, distributions, layers, scaled rewards, priorities."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.recipes import dialect_of
from ledger_lab.runners.skrl.agents import ReplayAgent
from ledger_lab.runners.skrl.critics import CategoricalCritics
from ledger_lab.runners.skrl.networks import extend
from ledger_lab.runners.skrl.off_policy_dialect import CRITICS
from ledger_lab.runners.skrl.options import Options
from ledger_lab.runners.value_distribution import ValueDistribution
from tests.fakes.off_policy import OPTIONS, RECIPES, Training, adapter, translated
from tests.runners.test_off_policy_adapters import Privileged, put, require_same_learner

each_algorithm = pytest.mark.parametrize("algorithm", RECIPES)
each_option = pytest.mark.parametrize("option", OPTIONS)


@each_algorithm
def test_without_options_a_training_has_the_librarys_own_agent(algorithm: str, tmp_path: Path) -> None:
    assert not isinstance(Training(algorithm, tmp_path).agent, ReplayAgent)


@each_algorithm
@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_updates_without_options_equal_the_librarys_bit_for_bit(
    algorithm: str, clip: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe: dict[str, Any] = {"iterations": 4, "observation_normalization": True, "batch_size": 24}
    trainings = []
    for name, ours in (("stock", False), ("ours", True)):
        monkeypatch.setattr(Options, "change_updates", ours)
        training = Training(algorithm, tmp_path / name, env=Privileged(), **recipe)
        assert isinstance(training.agent, ReplayAgent) == ours
        training.agent.cfg.grad_norm_clip = clip
        training.train()
        trainings.append(training)
    require_same_learner(*trainings)
    figures = [training.heard.figures[4] for training in trainings]
    assert figures[0] == pytest.approx(figures[1])


@each_algorithm
@each_option
def test_a_training_with_options_goes_on_bit_for_bit(algorithm: str, option: str, tmp_path: Path) -> None:
    recipe: dict[str, Any] = {"iterations": 5, "observation_normalization": True, **OPTIONS[option]}
    whole = Training(algorithm, tmp_path / "whole", **recipe)
    whole.train()
    begun = Training(algorithm, tmp_path / "begun", **recipe)
    begun.heard.stop_after = 3
    begun.train()
    resumed = Training(algorithm, tmp_path / "resumed", **recipe)
    resumed.go_on_from(begun)
    resumed.train()
    require_same_learner(resumed, whole)
    last = whole.heard.figures[5]
    assert {**begun.heard.figures, **resumed.heard.figures} == whole.heard.figures
    assert {"value_loss", "policy_loss", "learning_rate"} <= set(last)
    assert all(math.isfinite(value) for value in last.values())


@each_algorithm
@each_option
def test_every_option_changes_what_is_learned(algorithm: str, option: str, tmp_path: Path) -> None:
    trained = []
    for name, changed in (("plain", {}), ("changed", OPTIONS[option])):
        training = Training(algorithm, tmp_path / name, iterations=3, **changed)
        training.train()
        trained.append(training.agent.policy.state_dict())
    assert trained[0].keys() != trained[1].keys() or not torch.equal(*(list(each.values())[-1] for each in trained))


@each_algorithm
def test_a_policy_with_all_options_is_loaded_as_it_was_saved(algorithm: str, tmp_path: Path) -> None:
    training = Training(algorithm, tmp_path, observation_normalization=True, **OPTIONS["all"])
    training.train()
    path = training.trainer._run_dir / training.trainer.save().path
    policy = training.adapter.load_policy(path, training.env, training.agent_cfg)
    groups = {"policy": torch.randn(32, 2)}
    seen = training.agent._observation_preprocessor(groups["policy"])
    raw, _ = training.agent.policy.compute({"observations": seen}, role="policy")
    assert torch.equal(policy(groups), 2.0 * torch.tanh(raw))
    plain = Training(algorithm, tmp_path / "plain", observation_normalization=True)
    with pytest.raises(UserError, match="cannot be loaded as a policy"):
        plain.trainer.begin(path)
    again = Training(algorithm, tmp_path / "again", observation_normalization=True, **OPTIONS["all"])
    again.trainer.begin(path)
    assert all(map(torch.equal, again.agent.policy.parameters(), training.agent.policy.parameters()))


@each_algorithm
def test_a_batch_holds_sums_of_rewards_and_what_comes_after_them(algorithm: str, tmp_path: Path) -> None:
    training = Training(algorithm, tmp_path, iterations=2, n_step=3, discount=0.5)
    training.train()
    replay = training.trainer.replay
    torch.manual_seed(8)
    batch = training.agent._draw()
    torch.manual_seed(8)
    index, after = replay.draw(16)
    ahead = replay.look_ahead(index, after, 3, 0.5)
    assert torch.equal(batch.rewards, ahead.rewards)
    assert torch.equal(batch.next_inputs["observations"], replay.read("observations", ahead.after))
    failed = replay.read("terminated", ahead.last)
    assert torch.equal(batch.bootstrap, torch.where(failed, 0.0, ahead.discounts))
    assert {0.25, 0.125} <= set(ahead.discounts.unique().tolist()) <= {0.5, 0.25, 0.125}


def test_layers_are_normalized_before_their_activations() -> None:
    torch.manual_seed(1)
    model: Any = torch.nn.Module()
    hidden, last = torch.nn.Linear(3, 8), torch.nn.Linear(8, 1)
    model.net_container = torch.nn.Sequential(hidden, torch.nn.ReLU(), last)
    extend(model)
    assert list(model.net_container)[0] is hidden and len(model.net_container) == 3
    extend(model, layer_norm=True, outputs=5)
    layers: Any = list(model.net_container)
    assert layers[0] is hidden and [type(layer).__name__ for layer in layers] == [
        *("Linear", "LayerNorm", "ReLU", "Linear")
    ]
    assert layers[1].normalized_shape == (8,) and layers[3].out_features == 5


@each_algorithm
def test_only_the_networks_that_are_named_have_normalized_layers(algorithm: str, tmp_path: Path) -> None:
    training = Training(algorithm, tmp_path, critic_layer_norm=True, hidden_dims=(8, 4))
    for role, model in training.agent.models.items():
        found = sum(isinstance(module, torch.nn.LayerNorm) for module in model.modules())
        assert found == (2 if role in CRITICS else 0)
    for number in (1, 2):
        critic, target = (training.agent.models[f"{name}critic_{number}"] for name in ("", "target_"))
        assert all(map(torch.equal, critic.parameters(), target.parameters()))


@each_algorithm
def test_a_critic_of_a_distribution_gives_its_mean(algorithm: str, tmp_path: Path) -> None:
    training = Training(algorithm, tmp_path, **OPTIONS["distribution"])
    critic = training.agent.critic_1
    values, outputs = critic.act({"observations": torch.randn(6, 2), "taken_actions": torch.randn(6, 1)}, role="")
    returns = torch.linspace(-20.0, 150.0, 21)
    assert torch.allclose(values, (outputs["logits"].softmax(dim=-1) * returns).sum(dim=-1, keepdim=True))


@each_algorithm
def test_targets_beyond_the_range_are_counted(algorithm: str, tmp_path: Path) -> None:
    for high, expected in ((0.001, 1.0), (1e4, 0.0)):
        training = Training(algorithm, tmp_path / str(high), value_atoms=5, value_range=(-0.001 - high, high))
        training.train()
        training.agent.update(timestep=0, timesteps=1)
        (*_, share) = training.agent.tracking_data["Target / Target beyond the range (share)"]
        assert share == pytest.approx(expected, abs=0.3)


def test_targets_of_distributions_are_those_of_a_plain_loop() -> None:
    torch.manual_seed(3)
    distribution = ValueDistribution(-2.0, 2.0, 9, torch.device("cpu"))
    critics = CategoricalCritics([], distribution)
    first, second = ((distribution.mean(each.softmax(-1)), {"logits": each}) for each in torch.randn(2, 12, 9))
    rewards, bootstrap, penalty = torch.rand(12, 1), torch.rand(12, 1).round() * 0.9, torch.rand(12, 1)
    targets = critics.targets(first, second, rewards, bootstrap, penalty)
    for row in range(12):
        _, outputs = min((first, second), key=lambda estimate, row=row: float(estimate[0][row]))
        moved = rewards[row] + bootstrap[row] * (distribution.returns - penalty[row])
        probabilities = outputs["logits"][row].softmax(-1)
        expected = distribution.project(probabilities.unsqueeze(0), moved.unsqueeze(0))[0]
        assert torch.allclose(targets[row], expected)
        loss = -sum(float(targets[row, atom] * first[1]["logits"][row].log_softmax(-1)[atom]) for atom in range(9))
        assert float(critics.losses(first, targets)[row]) == pytest.approx(loss, rel=1e-5)
    assert torch.allclose(critics.means(targets), (targets * distribution.returns).sum(dim=-1, keepdim=True))


def test_a_critic_of_a_distribution_learns_the_mean_and_the_spread_of_rewards() -> None:
    torch.manual_seed(4)
    distribution = ValueDistribution(-2.0, 2.0, 9, torch.device("cpu"))
    critics = CategoricalCritics([], distribution)
    logits = torch.zeros(1, 9, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.05)
    rewards = torch.tensor([[-1.0], [1.0], [1.0], [1.0]])
    ended = torch.zeros(4, 1)
    for _ in range(400):
        seen = logits.expand(4, 9)
        estimate = (distribution.mean(seen.softmax(-1)), {"logits": seen})
        with torch.no_grad():
            targets = critics.targets(estimate, estimate, rewards, ended, 0.0)
        loss = critics.losses(estimate, targets).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    learned = logits.detach().softmax(-1)[0]
    assert float(distribution.mean(learned)) == pytest.approx(0.5, abs=0.05)
    assert [float(learned[2]), float(learned[6])] == pytest.approx([0.25, 0.75], abs=0.05)


@each_algorithm
def test_priorities_follow_the_errors_of_the_critics(algorithm: str, tmp_path: Path) -> None:
    training = Training(algorithm, tmp_path, iterations=2, prioritized_sampling=True)
    tree = training.trainer.replay._tree
    training.train()
    held = tree.priorities[: len(training.trainer.replay)]
    assert len(held.unique()) > 8 and float(held.min()) > 0.0
    assert training.agent._draw().weights.shape == (16, 1)


@each_algorithm
def test_scaled_rewards_are_part_of_the_state_but_not_of_the_memory(algorithm: str, tmp_path: Path) -> None:
    training = Training(algorithm, tmp_path, iterations=2, reward_normalization=True)
    training.train()
    stored = training.stored("rewards")[:32].squeeze(-1)
    assert torch.allclose(stored, 10.0 * torch.stack(training.env.rewarded)), "as without the option"
    scale = training.agent.reward_scale
    assert "reward_scale" in training.trainer.state() and float(scale.count) == 2 * 16 * 8
    torch.manual_seed(8)
    batch = training.agent._draw()
    torch.manual_seed(8)
    index, _ = training.trainer.replay.draw(16)
    assert torch.equal(batch.rewards, scale(training.trainer.replay.read("rewards", index)))


@each_algorithm
def test_priorities_are_part_of_the_accounted_memory(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Training(algorithm, tmp_path / "first").trainer.replay
    held = plain.nbytes + 9 * plain.steps * plain.num_envs
    monkeypatch.setattr("ledger_lab.runners.replay_plan.usable_bytes", lambda: held)
    assert Training(algorithm, tmp_path / "second", prioritized_sampling=True).trainer.replay.nbytes <= held
    monkeypatch.setattr("ledger_lab.runners.replay_plan.usable_bytes", lambda: held - 1)
    with pytest.raises(UserError, match="there is room for 47 steps"):
        Training(algorithm, tmp_path / "third", prioritized_sampling=True)


def test_the_target_of_the_entropy_counts_per_action(tmp_path: Path) -> None:
    usual = Training("sac", tmp_path / "usual").agent._target_entropy
    assert usual == -1.0
    assert Training("sac", tmp_path / "other", entropy_target=-0.25).agent._target_entropy == -0.25
    rl_games = Training("sac", tmp_path / "rl_games", library="rl_games", entropy_target=-0.25)
    assert rl_games.agent.target_entropy == -0.25


@each_algorithm
@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("n_step", 0, "agent.n_step 0: must be a whole number of at least 1"),
        ("value_atoms", 1.5, "agent.value_atoms 1.5: must be a whole number"),
        ("value_range", [1.0, -1.0], r"agent.value_range \[1.0, -1.0\]: must be two finite numbers, the smaller one"),
        ("critic_layer_norm", 1, "agent.critic_layer_norm 1: must be true or false"),
        ("prioritized_sampling", "yes", "agent.prioritized_sampling 'yes': must be true or false"),
        (
            "models.critic_2.output",
            "tanh(ONE)",
            r"agent.models.critic_2.output 'tanh\(ONE\)': agent.value_atoms 21 rep",
        ),
    ],
)
def test_options_that_cannot_be_trained_are_refused(algorithm: str, path: str, value: object, complaint: str) -> None:
    agent_cfg = translated(algorithm)
    put(agent_cfg, path, value)
    if path.startswith("models"):
        agent_cfg["value_atoms"] = 21
    with pytest.raises(UserError, match=complaint):
        adapter(algorithm).prepare(agent_cfg, "cpu")


@each_algorithm
def test_a_configuration_from_before_the_options_is_the_same_agent(algorithm: str) -> None:
    agent_cfg = translated(algorithm)
    assert not set(Options.__dataclass_fields__) & set(agent_cfg)
    prepared = adapter(algorithm).prepare(agent_cfg, "cpu")
    assert not set(Options.__dataclass_fields__) & set(prepared)
    assert not Options.of(prepared, dialect_of("skrl", algorithm)).change_updates
