"""What LedgerLab adds to SAC and TD3 of SKRL: several rewards, more critics, distributions, layers, symlog and more."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.off_policy.skrl.agents import ReplayAgent
from ledger_lab.off_policy.skrl.critics import CategoricalCritics, Estimate, MeanCritics
from ledger_lab.off_policy.skrl.networks import extend, see_symlog, symlog
from ledger_lab.off_policy.skrl.off_policy_dialect import CRITICS, critic_roles
from ledger_lab.off_policy.skrl.options import Options
from ledger_lab.off_policy.value_distribution import ValueDistribution
from ledger_lab.training.checkpoints.files import FlatPolicy, policy_files
from tests.fakes.off_policy import OPTIONS, RECIPES, Training, adapter, learned, put, require_same_learner, translated
from tests.fakes.toy_env import Privileged

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
@pytest.mark.parametrize("option", ["critics_of_which_one_counts", "fewer_updates", "all"])
def test_a_training_with_options_goes_on_bit_for_bit(algorithm: str, option: str, tmp_path: Path) -> None:
    recipe: dict[str, Any] = {"iterations": 5, "observation_normalization": True, **OPTIONS[option]}
    whole = Training(algorithm, tmp_path / "whole", **recipe)
    whole.train()
    begun = Training(algorithm, tmp_path / "begun", **recipe)
    begun.heard.stop_after = 3
    begun.train()
    resumed = Training(algorithm, tmp_path / "resumed", **recipe)
    resumed.go_on_from(begun)
    if option == "all":  # it scales by the rewards of running episodes, which go on here
        resumed.agent.reward_scale.returns = begun.agent.reward_scale.returns
    resumed.train()
    require_same_learner(resumed, whole)
    last = whole.heard.figures[5]
    assert {**learned(begun), **learned(resumed)} == learned(whole)
    assert {"value_loss", "policy_loss", "learning_rate"} <= set(last)
    assert all(math.isfinite(value) for value in last.values())


@each_option
def test_every_option_changes_what_is_learned(option: str, tmp_path: Path) -> None:
    trained = []
    for name, changed in (("plain", {}), ("changed", OPTIONS[option])):
        training = Training("sac", tmp_path / name, iterations=2, **changed)
        training.train()
        trained.append([*training.agent.policy.parameters()][-1])
    assert not torch.equal(*trained)


@each_algorithm
@pytest.mark.parametrize("overlap", [False, True])
def test_updates_may_be_due_at_some_steps_only(algorithm: str, overlap: bool, tmp_path: Path) -> None:
    steps: list[int] = []
    training = Training(algorithm, tmp_path, settings={"overlap": overlap}, iterations=3, update_every=4)
    update = training.trainer._library["update"]
    training.trainer._library["update"] = lambda **when: (steps.append(when["timestep"]), update(**when))
    training.train()
    # of 48 steps, from step 20 on; an overlapped update waits for the next step, which the last one does not have
    assert steps == [23, 27, 31, 35, 39, 43, 47][: -1 if overlap else None]
    plan = training.adapter.plan(training.agent_cfg)
    assert (plan.minibatches, plan.effective_batch(16)) == (4 * 2, 4 * 2 * 16)
    if overlap:  # at the end of an iteration, the update that was due 4 steps before has been made
        assert training.heard.figures[3]["policy_lag_steps"] == 4.0
    with pytest.raises(UserError, match="update_every 5: agent.agent.experiment.write_interval 16 is not a multiple"):
        Training(algorithm, tmp_path / "odd", update_every=5)


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


@pytest.mark.parametrize("asked", [1, 2, 4])
def test_targets_of_distributions_are_those_of_a_plain_loop(asked: int) -> None:
    torch.manual_seed(3)
    distribution = ValueDistribution(-2.0, 2.0, 9, torch.device("cpu"))
    critics = CategoricalCritics([], distribution)
    estimates = [(distribution.mean(each.softmax(-1)), {"logits": each}) for each in torch.randn(asked, 12, 9)]
    rewards, bootstrap, penalty = torch.rand(12, 1), torch.rand(12, 1).round() * 0.9, torch.rand(12, 1)
    targets = critics.targets(estimates, rewards, bootstrap, penalty)
    first = estimates[0]
    for row in range(12):
        _, outputs = min(estimates, key=lambda estimate, row=row: float(estimate[0][row]))
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
            targets = critics.targets([estimate, estimate], rewards, ended, 0.0)
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


def test_an_entropy_that_no_bounded_action_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match=r"entropy_target 0\.7: must be below ln 2"):
        replace(RECIPES["sac"], entropy_target=0.7)  # type: ignore[call-arg]


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
        ("critics", 1, "agent.critics 1: must be a whole number of at least 2"),
        ("critics_in_target", 3, "agent.critics_in_target 3: there are only 2 critics: lower it, or raise agent.crit"),
        ("observation_symlog", 1, "agent.observation_symlog 1: must be true or false"),
        ("replay_on_host", None, "agent.replay_on_host None: must be true or false"),
        (
            "models.critic_2.output",
            "tanh(ONE)",
            r"agent.models.critic_2.output 'tanh\(ONE\)': agent.value_atoms 21 rep",
        ),
    ],
)
def test_options_that_cannot_be_trained_are_refused(algorithm: str, path: str, value: object, complaint: str) -> None:
    agent_cfg = translated(algorithm)
    if path.startswith("models"):
        put(agent_cfg, path, value)
        agent_cfg["value_atoms"] = 21
    else:
        agent_cfg[path] = value
    with pytest.raises(UserError, match=complaint):
        adapter(algorithm).prepare(agent_cfg, "cpu")


@each_algorithm
@pytest.mark.parametrize("normalizer", ["observation_preprocessor", "state_preprocessor"])
def test_symmetric_logarithms_of_normalized_observations_are_refused(algorithm: str, normalizer: str) -> None:
    agent_cfg = translated(algorithm, observation_symlog=True)
    adapter(algorithm).prepare(agent_cfg, "cpu")
    agent_cfg["agent"][normalizer] = "RunningStandardScaler"
    complaint = f"agent.observation_symlog True: agent.agent.{normalizer} 'RunningStandardScaler' already limits"
    with pytest.raises(UserError, match=complaint):
        adapter(algorithm).prepare(agent_cfg, "cpu")


@each_algorithm
def test_descriptions_of_further_critics_are_refused(algorithm: str) -> None:
    agent_cfg = translated(algorithm, critics=3)
    agent_cfg["models"]["target_critic_3"] = agent_cfg["models"]["target_critic_1"]
    with pytest.raises(UserError, match=r"agent.models.target_critic_3: agent.critics 3 makes .*: leave it out"):
        adapter(algorithm).prepare(agent_cfg, "cpu")


@each_algorithm
@pytest.mark.parametrize("scaled", [False, True])
def test_a_training_that_begins_with_a_checkpoint_has_a_scale_of_its_own(
    algorithm: str, scaled: bool, tmp_path: Path
) -> None:
    """The rewards of the other task may be of another size, and its checkpoint may have no scale."""
    other = Training(algorithm, tmp_path / "other", iterations=2, reward_normalization=scaled)
    other.train()
    checkpoint = tmp_path / "other.pt"
    other.agent.save(str(checkpoint))
    training = Training(algorithm, tmp_path / "new", reward_normalization=True)
    training.trainer.begin(checkpoint)
    assert float(training.agent.reward_scale.count) == 0.0
    for mine, its in zip(training.agent.policy.parameters(), other.agent.policy.parameters(), strict=True):
        assert torch.equal(mine, its)


def weights_of(training: Training, role: str) -> torch.Tensor:
    """Return all weights of a network as one tensor."""
    return torch.nn.utils.parameters_to_vector(training.agent.models[role].parameters()).detach().clone()


@each_algorithm
def test_every_critic_begins_with_weights_of_its_own_and_learns(algorithm: str, tmp_path: Path) -> None:
    training = Training(algorithm, tmp_path, critics=4)
    roles = critic_roles(4)
    begun = {role: weights_of(training, role) for role in roles}
    for role in roles[:4]:
        assert torch.equal(begun[f"target_{role}"], begun[role])
        assert sum(torch.equal(begun[role], begun[other]) for other in roles[:4]) == 1, "itself"
    training.train()
    for role in roles[:4]:
        learned, followed = weights_of(training, role), weights_of(training, f"target_{role}")
        assert not torch.equal(learned, begun[role]) and not torch.equal(followed, begun[role])
        assert not torch.equal(learned, followed)
    assert set(roles) <= set(training.trainer.state())


@each_algorithm
def test_target_critics_are_drawn_anew_for_each_gradient_step(algorithm: str, tmp_path: Path) -> None:
    agent = Training(algorithm, tmp_path, critics=5).agent
    drawn = [agent._target_roles() for _ in range(2000)]
    assert all(len(set(each)) == 2 for each in drawn)
    counts = Counter(role for each in drawn for role in each)
    assert set(counts) == set(critic_roles(5)[5:])
    assert list(counts.values()) == pytest.approx([800] * 5, rel=0.15)


@each_algorithm
def test_only_the_target_critics_that_are_drawn_are_asked(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training(algorithm, tmp_path, critics=3)
    training.train()
    agent, asked = training.agent, list[set[str]]()
    estimates = agent._estimates

    def watched(roles: Sequence[str], *args: Any) -> list[Estimate]:
        asked.append(set(roles))
        return estimates(roles, *args)  # type: ignore[no-any-return]

    monkeypatch.setattr(agent, "_estimates", watched)
    agent._improve_critics(agent._draw())
    targets, critics = asked
    assert len(targets) == 2 and targets < set(critic_roles(3)[3:])
    assert critics == set(critic_roles(3)[:3]), "each of them learns"


def test_targets_of_means_follow_the_lowest_estimate() -> None:
    estimates: list[Estimate] = [(torch.tensor(mean), {}) for mean in ([[3.0], [1.0]], [[2.0], [4.0]], [[5.0], [5.0]])]
    rewards, bootstrap = torch.ones(2, 1), torch.tensor([[0.5], [0.0]])
    assert MeanCritics().targets(estimates, rewards, bootstrap, 4.0).tolist() == [[0.0], [1.0]]


@each_algorithm
@pytest.mark.parametrize("critics", [2, 3])
def test_a_policy_learns_from_the_mean_of_more_than_two_critics(algorithm: str, critics: int, tmp_path: Path) -> None:
    agent = Training(algorithm, tmp_path, critics=critics, critics_in_target=1).agent
    inputs, actions = {"observations": torch.randn(6, 2), "states": None}, torch.randn(6, 1)
    values = [
        agent.models[role].act({**inputs, "taken_actions": actions}, role=role)[0]
        for role in critic_roles(critics)[:critics]
    ]
    of_two = torch.min(values[0], values[1]) if algorithm == "sac" else values[0]
    expected = of_two if critics == 2 else (values[0] + values[1] + values[2]) / 3.0
    assert torch.allclose(agent._values(inputs, actions), expected)


def test_symmetric_logarithms_keep_the_sign_and_hardly_change_small_values() -> None:
    values = torch.tensor([-1e6, -1.0, -1e-4, 0.0, 1e-4, 1.0, 1e6, float("nan"), float("inf")])
    expected = [math.copysign(math.log1p(abs(value)), value) for value in values.tolist()]
    assert symlog(values).tolist() == pytest.approx(expected, nan_ok=True)


def test_all_inputs_but_actions_become_symmetric_logarithms() -> None:
    model: Any = torch.nn.Linear(1, 1)
    model.compute = lambda inputs, role: (inputs, role)
    see_symlog(model)
    inputs = {"observations": torch.randn(3, 2), "states": torch.randn(3, 1), "taken_actions": torch.randn(3, 1)}
    seen, role = model.compute(inputs, role="critic_1")
    assert role == "critic_1" and seen["taken_actions"] is inputs["taken_actions"]
    assert all(torch.equal(seen[name], symlog(inputs[name])) for name in ("observations", "states"))
    assert model.compute({**inputs, "states": None}, "")[0]["states"] is None


@each_algorithm
def test_every_network_sees_symmetric_logarithms(algorithm: str, tmp_path: Path) -> None:
    plain, changed = (
        Training(algorithm, tmp_path / str(sees), critics=3, observation_symlog=sees) for sees in (False, True)
    )
    observations, actions = 50.0 * torch.randn(6, 2), 50.0 * torch.randn(6, 1)
    for role, model in changed.agent.models.items():
        found, _ = model.compute({"observations": observations, "taken_actions": actions}, role)
        seen = {"observations": symlog(observations), "taken_actions": actions}
        assert torch.equal(found, plain.agent.models[role].compute(seen, role)[0])


@each_algorithm
def test_a_policy_that_sees_symmetric_logarithms_is_scored_and_exported(algorithm: str, tmp_path: Path) -> None:
    training = Training(algorithm, tmp_path, observation_symlog=True)
    training.train()
    path = training.trainer._run_dir / training.trainer.save().path
    groups = {"policy": 100.0 * torch.randn(32, 2)}
    policy = training.adapter.load_policy(path, training.env, training.agent_cfg)
    raw, _ = training.agent.policy.compute({"observations": groups["policy"]}, role="policy")
    actions = 2.0 * torch.tanh(raw.detach())
    assert torch.equal(policy(groups), actions)
    for file in policy_files(FlatPolicy(policy, groups), groups["policy"][:2], "{}"):
        assert torch.allclose(file.run(groups["policy"]), actions, atol=1e-5), file.name


@each_algorithm
@pytest.mark.parametrize("sees", [False, True])
def test_weights_for_symmetric_logarithms_are_kept_from_other_networks(
    algorithm: str, sees: bool, tmp_path: Path
) -> None:
    one, other = (Training(algorithm, tmp_path / str(each), observation_symlog=each) for each in (sees, not sees))
    one.trainer._write(tmp_path / "one.pt")
    with pytest.raises(UserError, match=r"one.pt cannot be loaded as a policy of SKRL: .*observation_symlog"):
        other.trainer.begin(tmp_path / "one.pt")
    with pytest.raises(UserError, match="one.pt cannot be loaded as a policy"):
        other.adapter.load_policy(tmp_path / "one.pt", other.env, other.agent_cfg)


@each_algorithm
def test_on_a_cpu_the_host_holds_the_replay_memory_anyway(algorithm: str, tmp_path: Path) -> None:
    trainings = []
    for on_host in (False, True):
        training = Training(algorithm, tmp_path / str(on_host), prioritized_sampling=True, replay_on_host=on_host)
        training.train()
        trainings.append(training)
    require_same_learner(*trainings)
