"""A checkpoint is complete or absent, and on disk before it is reported."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from rl_games.algos_torch.running_mean_std import RunningMeanStd
from rsl_rl.modules import EmpiricalNormalization
from skrl.resources.preprocessors.torch import RunningStandardScaler

from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.runners.checkpoint_file import load_networks

NORMALIZERS = (
    EmpiricalNormalization,
    lambda size: RunningMeanStd((size,)),
    lambda size: RunningStandardScaler(size, device="cpu"),
)
"""Each library's own normalizer of observations."""


def test_a_saved_checkpoint_and_its_folder_entry_are_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synchronized: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synchronized.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    path = tmp_path / "model_1.pt"
    with whole_file(path) as unfinished:
        unfinished.write_bytes(b"weights")
        assert not path.exists()
    assert path.read_bytes() == b"weights"
    assert synchronized == [str(tmp_path / "model_1.pt.partial" / "model_1.pt"), str(tmp_path)]


def test_a_failed_save_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="banana"), whole_file(tmp_path / "model_1.pt") as unfinished:
        unfinished.write_bytes(b"wei")
        raise ValueError("banana")
    assert not list(tmp_path.iterdir())


def test_new_inputs_do_not_change_a_loaded_network(tmp_path: Path) -> None:
    known, more = (torch.nn.Sequential(torch.nn.Linear(n, 4), torch.nn.ELU(), torch.nn.Linear(4, 2)) for n in (3, 5))
    torch.save({"network": known.state_dict()}, tmp_path / "model_1.pt")
    load_networks({"network": more}, tmp_path / "model_1.pt", "a library")
    seen = torch.randn(7, 5)
    assert torch.allclose(more(seen), known(seen[:, :3]), atol=1e-6)
    more(seen).sum().backward()
    assert more[0].weight.grad[:, 3:].abs().min() > 0, "it can learn to"


def test_a_loaded_normalizer_leaves_new_inputs_unchanged(tmp_path: Path) -> None:
    for make in NORMALIZERS:
        known, more = make(3), make(5)
        for name, buffer in known.named_buffers():
            if "count" not in name:
                buffer.copy_(torch.full_like(buffer, 0.3 if "mean" in name else 4.0))
        torch.save({"network": known.state_dict()}, tmp_path / "model_1.pt")
        load_networks({"network": more}, tmp_path / "model_1.pt", "a library")
        for name, buffer in more.named_buffers():
            if "count" not in name:
                new = 0.0 if "mean" in name else 1.0
                old = 0.3 if "mean" in name else 4.0
                assert torch.allclose(buffer.flatten(), torch.tensor([old] * 3 + [new] * 2).to(buffer.dtype)), name


@pytest.mark.parametrize("layers", [(2, 4), (3, 5), (3, 4, 4)], ids=["fewer inputs", "wider", "deeper"])
def test_a_network_of_other_layers_is_refused(layers: tuple[int, ...], tmp_path: Path) -> None:
    torch.save({"network": torch.nn.Sequential(torch.nn.Linear(3, 4)).state_dict()}, tmp_path / "model_1.pt")
    other = torch.nn.Sequential(*(torch.nn.Linear(*sizes) for sizes in zip(layers, layers[1:], strict=False)))
    with pytest.raises(UserError, match="cannot be loaded as a policy of a library"):
        load_networks({"network": other}, tmp_path / "model_1.pt", "a library")


@pytest.mark.parametrize(
    "content",
    [torch.zeros(3), {"network": "text"}, {"network": [("weight", 1)]}, {"network": {"weight": "text"}}],
    ids=["a tensor", "a text", "a list", "a text for a weight"],
)
def test_a_file_with_other_content_is_refused_in_one_line(content: object, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "model_1.pt")
    with pytest.raises(UserError, match="cannot be loaded as a policy of a library") as refused:
        load_networks({"network": torch.nn.Linear(3, 2)}, tmp_path / "model_1.pt", "a library")
    assert "\n" not in str(refused.value)


@pytest.mark.thorough  # tests above damage single parts
def test_damaged_bytes_are_refused_or_loaded(tmp_path: Path) -> None:
    path, network = tmp_path / "model_1.pt", torch.nn.Linear(3, 2)
    torch.save({"network": network.state_dict()}, path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with suppress(UserError):
            load_networks({"network": network}, path, "a library")
