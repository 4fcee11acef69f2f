"""A written policy is run as its contract says, from the values of single observation terms."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError


def described(*terms: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the observations of a contract with one group."""
    plain = {"clip": None, "scale": None, "history_steps": 0, "trained_delay_steps": [0, 0]}
    return [{"group": "policy", "terms": [{**plain, **term} for term in terms]}]


HEIGHT = {"name": "height", "slice": [0, 2], "clip": [-1.0, "inf"], "scale": [2.0, 4.0]}
SPEED = {"name": "speed", "slice": [2, 4], "history_steps": 2}


def steps(*values: tuple[float, float, bool]) -> list[Any]:
    """Return measured heights (twice the same) and speeds of one environment, and whether an episode begins."""
    from ledger_lab.training.checkpoints.deployed import Measured

    return [
        Measured(
            {("policy", "height"): torch.full((1, 2), height), ("policy", "speed"): torch.tensor([[speed]])},
            torch.tensor([begins]),
        )
        for height, speed, begins in values
    ]


def test_clip_scale_history_and_place_follow_from_the_contract() -> None:
    from ledger_lab.training.checkpoints.deployed import flat_observations

    told = steps((-3.0, 1.0, True), (5.0, 2.0, False), (5.0, 3.0, True), (5.0, 4.0, False))
    found, taken = flat_observations(described(HEIGHT, SPEED), told, [torch.full((1, 4), 9.0)] * 4)
    assert taken == []
    assert found.tolist() == [
        [-2.0, -4.0, 1.0, 1.0],
        [10.0, 20.0, 1.0, 2.0],
        [10.0, 20.0, 3.0, 3.0],
        [10.0, 20.0, 3.0, 4.0],
    ]
    delayed = {**SPEED, "trained_delay_steps": [0, 2]}
    found, taken = flat_observations(described(HEIGHT, delayed), told[:1], [torch.full((1, 4), 9.0)])
    assert (taken, found.tolist()) == (["policy.speed"], [[-2.0, -4.0, 9.0, 9.0]])
    nowhere = {**SPEED, "slice": None}
    assert flat_observations(described(nowhere), told[:1], [torch.full((1, 4), 9.0)])[1] == ["policy.speed"]


class Doubled(torch.nn.Module):
    """A policy."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Return actions."""
        return 2.0 * obs


def written(folder: Path, contract: list[dict[str, Any]], factor: float = 1.0) -> Any:  # noqa: ANN401 - heavy type
    """Write a policy and a contract, and return what the policy saw and did."""
    from ledger_lab.training.checkpoints.export import Recorded

    told = steps((0.5, 1.0, True), (0.25, 2.0, False))
    seen = [torch.tensor([[1.0, 2.0, 1.0, 1.0]]), torch.tensor([[0.5, 1.0, 1.0, 2.0]])]
    torch.jit.save(torch.jit.trace(Doubled(), seen[0]), folder / "policy.pt")
    (folder / "contract.json").write_text(json.dumps({"observations": contract}))
    return Recorded(told, seen, factor * 2.0 * torch.cat(seen))


def test_a_written_policy_that_acts_like_the_original_passes(tmp_path: Path) -> None:
    from ledger_lab.training.checkpoints.export import run_as_described

    recorded = written(tmp_path, described(HEIGHT, SPEED))
    assert run_as_described(tmp_path, ["policy.pt"], recorded, 1e-5) == {
        "largest_error": {"policy.pt": 0.0},
        "terms_taken_from_simulation": [],
    }


@pytest.mark.parametrize(
    ("contract", "factor", "complaint"),
    [
        (
            described({**HEIGHT, "slice": [2, 4]}, {**SPEED, "slice": [0, 2]}),
            1.0,
            r"does not give the observations of the policy for policy.height, policy.speed: nothing is written",
        ),
        (described({**HEIGHT, "scale": [2.0, 2.0]}, SPEED), 1.0, r"for policy.height: nothing is written"),
        (described(HEIGHT, SPEED), 1.1, r"policy.pt, run as the contract says, differs from the policy by"),
        (described(HEIGHT, SPEED), float("nan"), r"policy.pt, run as the contract says, differs from the .* by nan"),
    ],
)  # fmt: skip
def test_wrong_slices_scales_and_actions_are_refused(
    contract: list[dict[str, Any]], factor: float, complaint: str, tmp_path: Path
) -> None:
    from ledger_lab.training.checkpoints.export import run_as_described

    recorded = written(tmp_path, contract, factor)
    with pytest.raises(UserError, match=complaint):
        run_as_described(tmp_path, ["policy.pt"], recorded, 1e-5)


def test_nothing_that_states_a_score_stays_after_a_mismatch(tmp_path: Path) -> None:
    from rich.console import Console

    from ledger_lab.training.checkpoints.export import _write

    (tmp_path / "made").mkdir()
    recorded = written(tmp_path / "made", described(HEIGHT, SPEED), factor=1.1)
    content = {"policy.pt": (tmp_path / "made" / "policy.pt").read_bytes()}
    contract = {"observations": described(HEIGHT, SPEED), "scores": [{"proves_target": 0.9}], "parity": {}}
    (tmp_path / "robot").mkdir()
    plan: Any = SimpleNamespace(folder=tmp_path / "robot", tolerance=1e-5)
    with pytest.raises(UserError, match="nothing is written"):
        _write(plan, content, contract, recorded, Console())
    assert not [*(tmp_path / "robot").iterdir()]


def test_measuring_leaves_the_observations_as_they_are() -> None:
    from isaaclab.utils.noise import ConstantNoiseCfg

    from ledger_lab.training.checkpoints.deployed import Measurements

    noisy = SimpleNamespace(noise=ConstantNoiseCfg(bias=1.0))
    quiet = SimpleNamespace(noise=None)
    manager = SimpleNamespace(active_terms={"policy": ["a", "b"]}, _group_obs_term_cfgs={"policy": [noisy, quiet]})
    env: Any = SimpleNamespace(observation_manager=manager, episode_length_buf=torch.tensor([0, 3]))
    env.unwrapped = env
    measurements = Measurements(env)
    values = torch.zeros(2, 1)
    assert noisy.noise.func(values, noisy.noise).tolist() == [[1.0], [1.0]]
    assert quiet.noise.func(values, quiet.noise) is values
    taken = measurements.take()
    assert {place: value.tolist() for place, value in taken.values.items()} == {
        ("policy", "a"): [[1.0], [1.0]],
        ("policy", "b"): [[0.0], [0.0]],
    }
    assert taken.begins.tolist() == [True, False]
