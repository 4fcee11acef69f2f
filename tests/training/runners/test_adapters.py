"""Every library keeps the protocol of :mod:`ledger_lab.training.runners.adapter`."""

from __future__ import annotations

import functools
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger import FIGURES
from ledger_lab.ledger.libraries import LIBRARIES, dialect_of
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.tasks.recipes import PpoRecipe
from ledger_lab.training.runners.adapter import Adapter, load_adapter
from ledger_lab.training.runners.recorded_calls import recorded_calls
from tests.fakes.observers import Heard
from tests.fakes.toy_env import ToyEnv

type Observations = Mapping[str, torch.Tensor]


def _live_rsl_rl(trainer: Any, observations: Observations) -> torch.Tensor:
    from tensordict import TensorDict

    return trainer._runner.get_inference_policy()(TensorDict(dict(observations), batch_size=[8]))


def _live_skrl(trainer: Any, observations: Observations) -> torch.Tensor:
    _, outputs = trainer._agent.act(observations["policy"], None, timestep=0, timesteps=1)
    return outputs["mean_actions"]


def _live_rl_games(trainer: Any, observations: Observations) -> torch.Tensor:
    return trainer._algo.get_action_values({"obs": observations["policy"]})["mus"]


LIVE: dict[str, Callable[[Any, Observations], torch.Tensor]] = {
    "rsl_rl": _live_rsl_rl,
    "rl_games": _live_rl_games,
    "skrl": _live_skrl,
}
"""Deterministic actions of the policy that is being trained, by each library's own means."""

NORMALIZED = {
    "rsl_rl": ["agent.actor.obs_normalization=True", "agent.critic.obs_normalization=True"],
    "rl_games": ["agent.params.config.normalize_input=True"],
    "skrl": ["agent.agent.observation_preprocessor=RunningStandardScaler"],
}
"""Overrides that normalize observations."""

NETWORKS = {
    "rsl_rl": {"actor_state_dict", "critic_state_dict"},
    "rl_games": {"model"},
    "skrl": {"policy", "value", "observation_preprocessor", "value_preprocessor"},
}
"""Parts of a trainer's state that a checkpoint can be begun with."""

COMPILED = {"rsl_rl": "agent.torch_compile_mode=default", "rl_games": "agent.params.config.torch_compile=True"}
"""Overrides that compile the networks, of the libraries that can."""


every_library = pytest.mark.parametrize("library", LIBRARIES)


def configured(library: str, *overrides: str, max_iterations: int = 3) -> tuple[Adapter, Any]:
    """Return a library's adapter, and our recipe of the cart-pole as its configuration."""
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs

    registered_tasks()
    adapter = load_adapter(library)
    _, agent_cfg = resolve_configs("LedgerLab-Cartpole", library, list(overrides))
    return adapter, adapter.prepare(agent_cfg, "cpu", seed=5, max_iterations=max_iterations)


RECURRENT = [("rsl_rl", "lstm"), ("rsl_rl", "gru"), ("rl_games", "lstm"), ("rl_games", "gru"), ("rl_games", "separate")]
"""The libraries that have recurrent layers, and their kinds; PPO of SKRL has none."""


def make_recurrent(library: str, agent_cfg: Any, layers: str) -> None:
    """Give the networks of a configuration two recurrent layers."""
    if library == "rsl_rl":
        from isaaclab_rl.rsl_rl import RslRlRNNModelCfg

        for name in ("actor", "critic"):
            plain = getattr(agent_cfg, name)
            known = {
                each: getattr(plain, each)
                for each in ("hidden_dims", "activation", "obs_normalization", "distribution_cfg")
            }
            setattr(agent_cfg, name, RslRlRNNModelCfg(**known, rnn_type=layers, rnn_hidden_dim=8, rnn_num_layers=2))
        load_adapter(library).prepare(agent_cfg, "cpu")
        return
    params = agent_cfg["params"]
    params["network"]["separate"] = layers == "separate"
    kind = "lstm" if layers == "separate" else layers
    params["network"]["rnn"] = {"name": kind, "units": 8, "layers": 2, "concat_output": True}
    params["config"]["seq_length"] = 4


class Training:
    """A training on the toy, ready to begin."""

    def __init__(
        self,
        library: str,
        run_dir: Path,
        *overrides: str,
        heard: Heard,
        max_iterations: int = 3,
        recipe: PpoRecipe | None = None,
        seed: int = 5,
        layers: str | None = None,
    ) -> None:
        torch.manual_seed(seed)
        self.adapter, self.agent_cfg = configured(library, *overrides, max_iterations=max_iterations)
        if recipe is not None:
            self.agent_cfg = self.adapter.prepare(
                dialect_of(library).config(recipe), "cpu", max_iterations=max_iterations
            )
        if layers is not None:
            make_recurrent(library, self.agent_cfg, layers)
        self.env, self.clock, self.heard = ToyEnv(), PhaseClock(time.perf_counter_ns()), heard
        self.run_dir = run_dir
        run_dir.mkdir(exist_ok=True)
        self.trainer = self.adapter.trainer(self.env, self.agent_cfg, run_dir, self.clock, heard.record)  # type: ignore[arg-type]

    def train(self) -> None:
        self.trainer.train(self.heard.on_iteration)

    def save(self) -> Path:
        return self.run_dir / self.trainer.save().path

    def policy(self, checkpoint: Path) -> Callable[[Observations], torch.Tensor]:
        return self.adapter.load_policy(checkpoint, self.env, self.agent_cfg)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def complete(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A training of three iterations that has ended; phases are counted from its start."""
    training = Training(request.param, tmp_path_factory.mktemp(request.param), heard=Heard())
    training.clock.set_base(Phase.UNATTRIBUTED)
    training.train()
    return training


every_complete_training = pytest.mark.parametrize("complete", LIBRARIES, indirect=True)


@every_library
def test_the_batch_arithmetic_is_the_recipes(library: str) -> None:
    adapter, agent_cfg = configured(library, max_iterations=7)
    batch = adapter.plan(agent_cfg)
    assert (batch.max_iterations, batch.horizon, batch.epochs) == (7, CARTPOLE.horizon, CARTPOLE.epochs)
    assert batch.minibatches_of(CARTPOLE.num_envs) == CARTPOLE.minibatches
    assert batch.save_interval == CARTPOLE.save_interval
    assert adapter.seed(agent_cfg) == 5
    assert adapter.experiment(agent_cfg) == CARTPOLE.experiment_name


@every_library
def test_the_agent_hash_ignores_device_length_and_name(library: str) -> None:
    from ledger_lab.training.runners.description import config_sha256

    adapter, plain = configured(library)
    settings = adapter.dialect.overrides
    same = [
        configured(library, max_iterations=9)[1],
        configured(library, f"{settings['experiment_name']}=another")[1],
        configured(library, f"{settings['save_interval']}=32")[1],
    ]
    other = configured(library, f"{settings['learning_rate']}=0.5")[1]
    hashes = {config_sha256(cfg, without=adapter.circumstances) for cfg in (plain, *same)}
    assert len(hashes) == 1
    assert config_sha256(other, without=adapter.circumstances) not in hashes


@every_complete_training
def test_every_iteration_is_reported_by_the_ledgers_names(complete: Training) -> None:
    training = complete
    assert list(training.heard.figures) == [1, 2, 3]
    for figures in training.heard.figures.values():
        known = {name for name in FIGURES if not name.startswith("replay_")}
        assert set(figures) == known, "episodes of 16 steps end in every iteration of 32"
        assert all(isinstance(value, float) for value in figures.values())
    last = training.heard.figures[3]
    assert 12 < last["mean_episode_steps"] <= 16
    assert 0.5 < last["mean_return"] / last["mean_episode_steps"] < 0.9
    assert 0.8 < last["action_std"] < 1.1
    assert last["entropy"] == pytest.approx(1.42 + math.log(last["action_std"]), abs=0.1)
    assert len(training.env.actions) == 3 * CARTPOLE.horizon
    phase_ns, wall_ns = training.clock.flush()
    assert sum(phase_ns.values()) == wall_ns
    assert {"manage", "simulate", "infer", "returns", "learn", "log", "checkpoint"} <= set(phase_ns)
    assert "synchronize" not in phase_ns


VALUE_FUNCTION: dict[str, Callable[[Any], tuple[Any, str]]] = {
    "rsl_rl": lambda trainer: (trainer._runner.alg.critic, "forward"),
    "rl_games": lambda trainer: (trainer._algo.model, "forward"),
    "skrl": lambda trainer: (trainer._agent.value, "act"),
}
"""The function that computes values, in each library."""

VALUE_NORMALIZER: dict[str, Callable[[Any], tuple[Any, str]]] = {
    "rl_games": lambda trainer: (trainer._algo.value_mean_std, "forward"),
    "skrl": lambda trainer: (trainer._agent, "_value_preprocessor"),
}
"""The function that normalizes values and returns, in each library that can."""


@every_library
def test_phases_mean_the_same_in_every_library(library: str, tmp_path: Path) -> None:
    recipe = replace(CARTPOLE, value_normalization=library in VALUE_NORMALIZER)
    training = Training(library, tmp_path, heard=Heard(), max_iterations=2, recipe=recipe)
    training.clock.set_base(Phase.UNATTRIBUTED)
    phase = lambda *_: training.clock._stack[-1]  # noqa: E731
    normalizer = VALUE_NORMALIZER.get(library, lambda _: (SimpleNamespace(none=print), "none"))(training.trainer)
    with (
        recorded_calls(*VALUE_FUNCTION[library](training.trainer), phase) as valued,
        recorded_calls(*normalizer, phase) as normalized,
    ):
        training.train()
    counts = Counter(valued)
    batch = training.adapter.plan(training.agent_cfg)
    assert counts[Phase.RETURNS] == 2, "the values of the last observations, once per iteration"
    assert counts[Phase.LEARN] == 2 * batch.epochs * batch.minibatches_of(training.env.num_envs)
    assert counts[Phase.INFER] >= 2 * batch.horizon
    assert set(counts) == {Phase.INFER, Phase.RETURNS, Phase.LEARN}
    if library in VALUE_NORMALIZER:
        assert Counter(normalized)[Phase.RETURNS] >= 2 * 2, "values and returns are normalized with the advantages"


@every_library
def test_a_training_can_begin_with_only_the_networks_of_another(library: str, tmp_path: Path) -> None:
    first = Training(library, tmp_path / "first", *NORMALIZED[library], heard=Heard())
    first.train()
    second = Training(library, tmp_path / "second", *NORMALIZED[library], heard=Heard(), seed=6)
    drawn = second.trainer.state()
    second.trainer.begin(first.heard.checkpoints[3])
    observations = {"policy": 3 * torch.randn(8, 2)}
    with torch.inference_mode():
        assert torch.equal(LIVE[library](second.trainer, observations), LIVE[library](first.trainer, observations))
    begun, learned = second.trainer.state(), first.trainer.state()
    assert differ(begun, learned) == differ(drawn, learned) - NETWORKS[library], "optimizer and counts stay behind"
    second.train()
    assert list(second.heard.figures) == [1, 2, 3]


def differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """Return the parts of two states that are not the same."""
    told = [{name: str(part) for name, part in state.items()} for state in (one, other)]
    return {name for name in told[0].keys() | told[1].keys() if told[0].get(name) != told[1].get(name)}


@every_library
def test_checkpoints_are_saved_only_at_the_reported_paths(library: str, tmp_path: Path) -> None:
    asked: dict[int, Path] = {}

    def save(iterations: int) -> None:
        if iterations == 2:
            asked[iterations] = training.save()
            assert training.save() == asked[iterations], "once is enough"

    training = Training(library, tmp_path, heard=Heard(on_each=save))
    training.train()
    assert asked == {2: training.heard.checkpoints[2]}
    assert 3 in training.heard.checkpoints, "the last policy is always saved"
    kept = {path for path in tmp_path.rglob("*") if path.is_file() and path.suffix in (".pt", ".pth", ".partial")}
    assert kept == set(training.heard.checkpoints.values())


@every_library
def test_a_checkpoint_acts_as_the_policy_that_was_trained(library: str, tmp_path: Path) -> None:
    def compare(iterations: int) -> None:
        torch.manual_seed(iterations)
        observations = {"policy": 3 * torch.randn(8, 2)}
        checkpoint, before = training.save(), torch.get_rng_state()
        policy = training.policy(checkpoint)
        with torch.inference_mode():
            actions = policy(observations)
            assert torch.equal(actions, policy(observations)), "deterministic, and frozen"
            assert torch.equal(torch.get_rng_state(), before), "nothing is drawn that the learner would miss"
            assert torch.equal(actions, LIVE[library](training.trainer, observations))
        outputs.append(actions)

    outputs: list[torch.Tensor] = []
    training = Training(library, tmp_path, *NORMALIZED[library], heard=Heard(on_each=compare))
    training.train()
    first = training.policy(training.heard.checkpoints[1])
    torch.manual_seed(1)
    assert torch.equal(first({"policy": 3 * torch.randn(8, 2)}), outputs[0]), "as it was then, not as it is now"


@pytest.mark.parametrize("library", COMPILED)
def test_compiling_counts_as_compile_and_leaves_checkpoints_as_they_are(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))  # takes seconds
    compiled = Training(library, tmp_path, COMPILED[library], heard=Heard())
    compiled.clock.set_base(Phase.UNATTRIBUTED)
    compiled.train()
    phase_ns, _ = compiled.clock.flush()
    assert phase_ns["compile"] > 0
    plain = Training(library, tmp_path / "plain", heard=Heard())
    plain.train()
    names, others = (torch.load(each.heard.checkpoints[3], weights_only=True) for each in (compiled, plain))
    assert str(_names(names)) == str(_names(others))
    assert plain.policy(compiled.heard.checkpoints[3])(plain.env.obs_buf).shape == (8, 1)


def _names(node: Any) -> Any:
    """Return the keys of a checkpoint, and those below."""
    return {key: _names(value) for key, value in node.items()} if isinstance(node, Mapping) else None


@every_complete_training
def test_a_file_that_is_not_a_checkpoint_of_the_network_is_refused(complete: Training, tmp_path: Path) -> None:
    whole = complete.heard.checkpoints[3]
    torn = tmp_path / "torn.pt"
    torn.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    strange = tmp_path / "strange.pt"
    torch.save({"weights": torch.zeros(3)}, strange)
    for path in (torn, strange, tmp_path / "absent.pt"):
        with pytest.raises(UserError, match=r"cannot be loaded as a policy of") as refused:
            complete.policy(path)
        assert "\n" not in str(refused.value)


@every_library
def test_the_observer_can_stop_a_training(library: str, tmp_path: Path) -> None:
    training = Training(library, tmp_path, heard=Heard(stop_after=2), max_iterations=5)
    training.train()
    assert list(training.heard.figures) == [1, 2]
    assert max(training.heard.checkpoints) == 2


@every_library
def test_an_exception_leaves_the_training_loop(library: str, tmp_path: Path) -> None:
    def interrupt(iterations: int) -> None:
        raise KeyboardInterrupt

    training = Training(library, tmp_path, heard=Heard(on_each=interrupt))
    with pytest.raises(KeyboardInterrupt):
        training.train()


@every_library
def test_a_restored_training_continues_bit_for_bit(library: str, tmp_path: Path) -> None:
    overrides = [*NORMALIZED[library], *(["agent.init_at_random_ep_len=false"] if library == "rsl_rl" else [])]

    def keep(iterations: int) -> None:
        if iterations == 2:
            env = whole.env
            kept["env"] = {"position": env.position.clone(), "episode_length_buf": env.episode_length_buf.clone()}
            torch.save(whole.trainer.state(), tmp_path / "state.pt")
            kept["rng"] = torch.get_rng_state()

    kept: dict[str, Any] = {}
    whole = Training(library, tmp_path / "whole", *overrides, heard=Heard(on_each=keep), max_iterations=4)
    whole.train()
    resumed = Training(library, tmp_path / "resumed", *overrides, heard=Heard(), max_iterations=4)
    resumed.trainer.restore(torch.load(tmp_path / "state.pt", weights_only=True))
    vars(resumed.env).update(kept["env"])
    torch.set_rng_state(kept["rng"])
    resumed.train()
    assert list(resumed.heard.figures) == [3, 4]
    assert set(resumed.heard.checkpoints) >= {4}
    ours, theirs = (torch.load(each.heard.checkpoints[4], weights_only=True) for each in (resumed, whole))
    assert list(_tensors(ours)) and len(list(_tensors(ours))) == len(list(_tensors(theirs)))
    for one, other in zip(_tensors(ours), _tensors(theirs), strict=True):
        assert torch.equal(one, other)
    for iteration, figures in resumed.heard.figures.items():
        of_learner = figures.keys() - {"mean_return", "mean_episode_steps"}  # episodes are counted anew
        assert {name: figures[name] for name in of_learner} == {
            name: whole.heard.figures[iteration][name] for name in of_learner
        }


@every_complete_training
def test_a_complete_training_only_returns_its_last_checkpoint(complete: Training) -> None:
    whole = complete
    again = Training(whole.adapter.library, whole.run_dir, heard=Heard())
    again.trainer.restore(whole.trainer.state())
    before = whole.heard.checkpoints[3].read_bytes()
    again.train()
    assert again.heard.figures == {}
    assert again.save() == whole.heard.checkpoints[3]
    assert whole.heard.checkpoints[3].read_bytes() == before, "the ledger knows its hash"


def _tensors(node: Any) -> list[torch.Tensor]:
    """Return all tensors of a checkpoint."""
    if isinstance(node, torch.Tensor):
        return [node]
    parts = node.values() if isinstance(node, Mapping) else node if isinstance(node, list | tuple) else ()
    return [tensor for part in parts for tensor in _tensors(part)]


@every_library
def test_every_part_of_a_profile_exists(library: str, tmp_path: Path) -> None:
    from ledger_lab.ledger.meters.probes import Probes

    training, probes = Training(library, tmp_path, heard=Heard()), Probes()
    for part in training.trainer.parts():
        probes.attach(part)
    training.train()
    probes.detach()
    timed = {sample.path[-1] for sample in probes.samples}
    assert {"environment step", "returns", "update", "optimizer step"} <= timed
