"""Images in the replay memory of SAC and TD3: as bytes where nothing is lost, with networks that a user describes."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
import yaml

from ledger_lab.errors import UserError
from tests.fakes.off_policy import LEARNERS, RECIPES, Training, require_same_learner, translated
from tests.fakes.stock_memories import SkrlStock
from tests.fakes.toy_env import ImageAndPlaceEnv, ImageEnv, ToyEnv

each_algorithm = pytest.mark.parametrize("algorithm", RECIPES)
each_env = pytest.mark.parametrize("env", [ImageEnv, ImageAndPlaceEnv])
each_pair = pytest.mark.parametrize(("algorithm", "env"), [("sac", ImageEnv), ("td3", ImageAndPlaceEnv)])


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Let small convolutions compute in one thread, which is faster than several on busy cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


PIXELS = math.prod(ImageEnv.image)
BESIDE = {ImageEnv: 1, ImageAndPlaceEnv: 3}
"""Numbers of an observation that are not in an image: of the critics, or of the policy."""


def described(algorithm: str, env: type[ToyEnv], image: str | None = None) -> dict[str, Any]:
    """Return descriptions of convolutional networks, as a user writes them into the agent's configuration.

    Args:
        algorithm: Name on the command line.
        env: What they see.
        image: Expression of the image in the observations; by default, its bytes are divided by 255.
    """
    within = {ImageEnv: ("OBSERVATIONS", []), ImageAndPlaceEnv: ("OBSERVATIONS['image']", ["age", "place"])}
    seen, others = within[env]
    convolutions = {
        "name": "features",
        "input": image or f"{seen} / 255.0",
        "layers": [{"conv2d": {"out_channels": 4, "kernel_size": 4, "stride": 4}}, "flatten"],
        "activations": "relu",
    }
    models: dict[str, Any] = copy.deepcopy(translated(algorithm)["models"])
    for role in set(models) - {"separate"}:
        acts = role.endswith("policy")
        beside = [f"OBSERVATIONS['{name}']" for name in others] if acts or others else ["STATES"]
        inputs = ", ".join(["features", *beside, *([] if acts else ["ACTIONS"])])
        hidden = {"name": "net", "input": f"concatenate([{inputs}])", "layers": [8], "activations": "elu"}
        models[role]["network"] = [convolutions, hidden]
    return models


def training(algorithm: str, run_dir: Path, env: type[ToyEnv] = ImageEnv, **changed: Any) -> Training:
    """Return a training on images."""
    recipe = {"updates_per_step": 1, **changed}
    return Training(algorithm, run_dir, env=env(), settings={"models": described(algorithm, env)}, **recipe)


@each_pair
def test_a_training_equals_one_with_the_librarys_memory_of_floats(
    algorithm: str, env: type[ToyEnv], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = training(algorithm, tmp_path / "ours", env, iterations=4)
    ours.train()
    assert ours.memory.replay.added > 48, "steps were overwritten"
    monkeypatch.setattr("ledger_lab.off_policy.skrl.adapter.SkrlMemory", SkrlStock)
    stock = training(algorithm, tmp_path / "stock", env, iterations=4)
    stock.train()
    require_same_learner(ours, stock)
    assert "value_loss" in ours.heard.figures[4]


@each_env
def test_only_images_are_stored_as_bytes(env: type[ToyEnv], tmp_path: Path) -> None:
    replay = training("sac", tmp_path, env).trainer.replay
    images = [table for table in replay._tables.values() if table.dtype == torch.uint8]
    assert [table.shape[-1] for table in images] == [PIXELS]
    each = PIXELS + 4 * BESIDE[env]
    assert replay.nbytes == 48 * 8 * (each + 4 + 4 + 1 + 4) + 8 * each, "action, reward, termination and index"


@each_pair
def test_a_checkpoint_acts_on_images(algorithm: str, env: type[ToyEnv], tmp_path: Path) -> None:
    trained = training(algorithm, tmp_path, env)
    trained.train()
    policy = trained.adapter.load_policy(tmp_path / trained.trainer.save().path, trained.env, trained.agent_cfg)
    seen = trained.env.obs_buf
    actions = policy(seen)
    assert actions.shape == (8, 1) and actions.abs().max() <= 2.0
    with torch.no_grad():
        outputs = trained.agent.policy.act(
            {"observations": trained.trainer._wrapper.reset()[0], "states": None}, role="policy"
        )
    expected = outputs[1]["mean_actions"] if algorithm == "sac" else outputs[0]
    assert torch.equal(actions, expected)


def test_the_networks_of_the_guide_can_be_trained(tmp_path: Path) -> None:
    class Large(ImageEnv):
        image = (3, 84, 84)

    guide = Path(__file__).parents[2] / "docs" / "examples" / "image_networks.yaml"
    models = yaml.safe_load(guide.read_text())["models"]
    for role in ("critic_2", "target_critic_1", "target_critic_2"):
        models[role] = copy.deepcopy(models["critic_1"])
    trained = Training("sac", tmp_path, env=Large(), settings={"models": models}, updates_per_step=1, iterations=2)
    trained.train()
    assert "value_loss" in trained.heard.figures[2]
    assert trained.trainer.replay._tables["observations"].dtype == torch.uint8


class ImageAloneEnv(ImageEnv):
    """The toy, whose critics see nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.single_observation_space = gym.spaces.Dict({"policy": self.single_observation_space["policy"]})

    @property
    def obs_buf(self) -> dict[str, Any]:
        return {"policy": self._image()}


SHAPE = r"observations of shape \(3, 16, 16\)"
WAY_OUT = "describe networks for these observations; those of images begin with layers like conv2d and flatten$"


@each_algorithm
def test_networks_without_layers_for_images_are_refused(algorithm: str, tmp_path: Path) -> None:
    complaint = rf"^agent.models: the networks can't read {SHAPE} \(Tensors must .*\): {WAY_OUT}"
    with pytest.raises(UserError, match=complaint):
        Training(algorithm, tmp_path, env=ImageAloneEnv())


@pytest.mark.parametrize(
    "error", ["CUDA out of memory. Tried to allocate 2 GiB", "CUDA error: unspecified launch failure"]
)
def test_a_fault_of_a_gpu_is_not_taken_for_a_wrong_network(error: str) -> None:
    from ledger_lab.off_policy.skrl.networks import fitting_networks

    with pytest.raises(RuntimeError, match=error), fitting_networks(None):
        raise RuntimeError(error)


@pytest.mark.parametrize(("env", "what"), [(ImageEnv, r"of shape \(3, 16, 16\)"), (ImageAndPlaceEnv, "not one tensor")])
def test_rl_games_refuses_images(env: type[ToyEnv], what: str, tmp_path: Path) -> None:
    assert ("rl_games", "sac") in LEARNERS
    complaint = (
        f"^observation group 'policy' is {what}, and SAC of rl_games learns from vectors only: use --rl_library skrl"
    )
    with pytest.raises(UserError, match=complaint):
        Training("sac", tmp_path, library="rl_games", env=env())
