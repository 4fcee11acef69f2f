"""Only checkpoints of a library's policies are loaded, also into networks that see more."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rl_games.algos_torch.running_mean_std import RunningMeanStd
from rsl_rl.modules import EmpiricalNormalization
from skrl.resources.preprocessors.torch import RunningStandardScaler

from ledger_lab.errors import UserError
from ledger_lab.training.runners.checkpoint_file import load_networks, loading_policy

NORMALIZERS = (
    EmpiricalNormalization,
    lambda size: RunningMeanStd((size,)),
    lambda size: RunningStandardScaler(size, device="cpu"),
)
"""Each library's own normalizer of observations."""


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


def compressed(path: Path) -> None:
    """Write a checkpoint whose tensors are small only as long as they are compressed."""
    torch.save({"network": {"weight": torch.zeros(1000, 1000)}}, path)
    with zipfile.ZipFile(path) as archive:
        members = {member.filename: archive.read(member) for member in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def overlapping(path: Path) -> None:
    """Write a checkpoint whose members are the same bytes, again and again."""
    torch.save({"network": {"weight": torch.zeros(1000)}}, path)
    with zipfile.ZipFile(path, "a") as archive:
        (large,) = [member for member in archive.infolist() if member.file_size == 4000]
        archive.filelist += [large] * 100
        archive.comment = b"-"  # lets the list of members be written again


class Large:
    def __reduce__(self) -> tuple[type[bytearray], tuple[int]]:
        return bytearray, (100 << 20,)


def behind_something(path: Path) -> None:
    """Write a checkpoint that does not begin the file."""
    torch.save({}, path)
    path.write_bytes(bytes(100) + path.read_bytes())


@pytest.mark.parametrize(
    ("write", "complaint"),
    [
        (compressed, r"its [\d,]+ B unpack to 4,\d{3},\d{3} B, and a library compresses nothing"),
        (overlapping, r"its [\d,]+ B unpack to 40\d,\d{3} B"),
        (lambda path: torch.save({"network": Large()}, path), "it holds __builtin__ bytearray, which is no tensor"),
        (
            lambda path: torch.save({"network": torch.eye(9).to_sparse()}, path),
            "_rebuild_sparse_tensor, which is no tensor",
        ),
        (lambda path: torch.save({}, path, _use_new_zipfile_serialization=False), "not a zip file"),
        (behind_something, "unpack to"),
    ],
    ids=["compressed", "overlapping", "bytes", "sparse", "old format", "behind something"],
)
def test_a_checkpoint_that_would_take_more_memory_than_disk_is_refused_unread(
    write: Callable[[Path], None], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "model_1.pt")
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was loaded"))
    with (
        pytest.raises(
            UserError, match=f"model_1.pt cannot be loaded as a policy of a library: .*{complaint}"
        ) as refused,
        loading_policy(tmp_path / "model_1.pt", "a library"),
    ):
        pass
    assert "\n" not in str(refused.value)
