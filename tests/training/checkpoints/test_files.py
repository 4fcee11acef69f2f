"""Exported policy files act like the live policy, without LedgerLab."""

from __future__ import annotations

import io
from pathlib import Path

import onnx
import pytest
import torch

from ledger_lab.errors import UserError
from tests.fakes.observers import Heard
from tests.training.runners.test_adapters import NORMALIZED, Training, every_library


@every_library
def test_files_reproduce_the_policy_with_its_normalizer(library: str, tmp_path: Path) -> None:
    from ledger_lab.tasks.exported import CONTRACT
    from ledger_lab.training.checkpoints.files import FlatPolicy, largest_error, live_actions, policy_files

    training = Training(library, tmp_path, *NORMALIZED[library], heard=Heard())
    training.train()
    policy = training.policy(training.heard.checkpoints[3])
    torch.manual_seed(1)
    recorded = [{"policy": 3 * torch.randn(8, 2), "unseen": torch.randn(8, 2, 2)} for _ in range(3)]
    with torch.no_grad():
        flat = FlatPolicy(policy, recorded[0])
        assert flat.groups == ["policy"], "what the policy does not read is not asked for"
        observations = torch.stack([flat.flatten(groups) for groups in recorded])
        begins = torch.zeros(3, 8, dtype=torch.bool)
        actions = live_actions(policy, recorded, begins)
        files = policy_files(flat, observations[0, :2], "the contract")
        assert [file.name for file in files] == ["policy.pt", "policy.onnx"]
        for file in files:
            assert largest_error(file, observations, actions, begins) < 1e-6
            assert largest_error(file, observations, actions.roll(1, dims=1), begins) > 1e-3
        again = policy_files(flat, observations[0, :2], "the contract")
        assert files[1].content == again[1].content
    extra = {CONTRACT: ""}
    script = torch.jit.load(io.BytesIO(files[0].content), _extra_files=extra)
    assert extra[CONTRACT] == b"the contract"
    script.double()
    assert script(observations[0].double()).dtype == torch.float64, "no tensor is left behind when it is moved"
    model = onnx.load_from_string(files[1].content)
    assert [(p.key, p.value) for p in model.metadata_props] == [(CONTRACT, "the contract")]
    assert ([i.name for i in model.graph.input], [o.name for o in model.graph.output]) == (["obs"], ["actions"])


def test_observation_groups_are_concatenated_in_order() -> None:
    from ledger_lab.training.checkpoints.files import FlatPolicy, largest_error, live_actions, policy_files
    from ledger_lab.training.runners.checkpoint_file import ActingModule

    def act(groups: dict[str, torch.Tensor]) -> torch.Tensor:
        return groups["map"].sum(dim=(1, 2))[:, None] - 2 * groups["policy"]

    groups = {"critic": torch.randn(4, 3), "policy": torch.randn(4, 2), "map": torch.randn(4, 2, 3)}
    with torch.no_grad():
        policy = ActingModule(act)
        flat = FlatPolicy(policy, groups)
        assert (flat.groups, flat.sizes) == (["policy", "map"], [2, 6])
        observations, begins = flat.flatten(groups)[None], torch.zeros(1, 4, dtype=torch.bool)
        actions = live_actions(policy, [groups], begins)
        for file in policy_files(flat, observations[0], "{}"):
            assert largest_error(file, observations, actions, begins) < 1e-6
            assert not largest_error(file, observations, actions * float("nan"), begins) <= 1.0


def test_observations_that_cannot_be_flattened_are_refused() -> None:
    from ledger_lab.training.checkpoints.files import FlatPolicy
    from ledger_lab.training.runners.checkpoint_file import ActingModule

    with pytest.raises(UserError, match="observation group 'camera' is not a single tensor of floats"):
        FlatPolicy(ActingModule(lambda groups: groups["policy"]), {"camera": torch.zeros(4, 2, dtype=torch.uint8)})
    with pytest.raises(UserError, match=r"do not depend on any observation \(policy\)"):
        FlatPolicy(ActingModule(lambda groups: torch.ones(4, 1)), {"policy": torch.zeros(4, 2)})


def test_non_finite_actions_are_refused() -> None:
    from ledger_lab.training.checkpoints.files import live_actions
    from ledger_lab.training.runners.checkpoint_file import ActingModule

    groups = {"policy": torch.tensor([[1.0], [-1.0]])}
    with pytest.raises(UserError, match="some actions of the policy are NaN or infinite"):
        live_actions(ActingModule(lambda seen: seen["policy"].log()), [groups], torch.ones(1, 2, dtype=torch.bool))
