"""An exported policy is run as its contract says, from the values of single observation terms."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from rich.console import Console

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


def parity(contract: list[dict[str, Any]], factor: float = 1.0) -> dict[str, Any] | None:
    """Check a file that doubles its observations against a policy that multiplies them."""
    from ledger_lab.training.checkpoints.export import check_parity
    from ledger_lab.training.checkpoints.files import PolicyFile

    told = steps((0.5, 1.0, True), (0.25, 2.0, False))
    seen = [torch.tensor([[1.0, 2.0, 1.0, 1.0]]), torch.tensor([[0.5, 1.0, 1.0, 2.0]])]
    files = [PolicyFile("policy.pt", b"", lambda obs: 2.0 * obs)]
    actions = factor * 2.0 * torch.stack(seen)
    return check_parity(files, {"observations": contract}, told, seen, actions, 1e-5, Console(width=200))


def test_a_file_that_acts_like_the_policy_passes() -> None:
    found = parity(described(HEIGHT, SPEED))
    assert found is not None
    assert (found["largest_error"], found["terms_taken_from_simulation"]) == ({"policy.pt": 0.0}, [])


@pytest.mark.parametrize(
    ("contract", "wrong"),
    [
        (described({**HEIGHT, "slice": [2, 4]}, {**SPEED, "slice": [0, 2]}), "policy.height, policy.speed"),
        (described({**HEIGHT, "scale": [2.0, 2.0]}, SPEED), "policy.height"),
    ],
)
def test_wrong_slices_and_scales_are_refused(contract: list[dict[str, Any]], wrong: str) -> None:
    with pytest.raises(UserError, match=f"not give the observations of the policy for {wrong}: nothing is written"):
        parity(contract)


@pytest.mark.parametrize("factor", [1.1, float("nan")])
def test_other_actions_are_refused(factor: float, capsys: pytest.CaptureFixture[str]) -> None:
    assert parity(described(HEIGHT, SPEED), factor) is None
    assert "on 2 recorded observations, above, so nothing is written: the tolerance of 1e-05" in capsys.readouterr().out
