"""Loads checkpoints of policies, refuses other files, and wraps a policy as a module of torch."""

from __future__ import annotations

import pickle
import pickletools
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ledger_lab.errors import UserError
from ledger_lab.files import file_sha256
from ledger_lab.ledger import CheckpointSaved

_UNREADABLE = (
    *(OSError, EOFError, pickle.UnpicklingError, RuntimeError, zipfile.BadZipFile),
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
)
"""Errors of reading a file with damaged bytes or with other content."""

_KNOWN = re.compile(
    r"collections OrderedDict|(builtins|__builtin__) (set|complex)|_codecs encode"
    r"|torch\._utils _rebuild_(tensor_v2|parameter)|torch (\w+Storage|Size|device|bool|(b?float|u?int|complex)\d+)"
)
"""What the libraries' checkpoints consist of. Torch accepts more, such as ``bytearray(N)``, which takes N bytes."""


def _require_no_bomb(checkpoint: Path) -> None:
    """Refuse a file that takes much more memory than it takes on the disk.

    Torch stores tensors uncompressed. The first member has to begin the file, because torch and Python look for the
    members of another archive at different places.

    Raises:
        ValueError: If the members are larger than the file, or something else than tensors and plain values is in it.
        zipfile.BadZipFile: If it is no archive, as in versions of torch before 1.6.
    """
    with zipfile.ZipFile(checkpoint) as archive:
        members, size = archive.infolist(), checkpoint.stat().st_size
        unpacked = sum(member.file_size for member in members)
        compressed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
        if compressed or unpacked > size or min(member.header_offset for member in members) != 0:
            raise ValueError(f"its {size:,} B unpack to {unpacked:,} B, and a library compresses nothing")
        for member in members:
            if member.filename.lower().endswith(".pkl"):
                for code, name, _ in pickletools.genops(archive.read(member)):
                    if code.name == "GLOBAL" and not _KNOWN.fullmatch(str(name)):
                        raise ValueError(f"it holds {name}, which is no tensor")


@contextmanager
def loading_policy(checkpoint: Path, library: str, device: str = "cpu") -> Iterator[dict[str, Any]]:
    """Read a checkpoint. Raise an error of one line if it can't be loaded as a policy inside the context.

    Args:
        checkpoint: The file.
        library: Name of the library that saved the policy, in words.
        device: Device of its tensors.

    Yields:
        The content of the file.

    Raises:
        UserError: If reading or loading it failed.
    """
    try:
        _require_no_bomb(checkpoint)
        yield torch.load(checkpoint, weights_only=True, map_location=device)
    except _UNREADABLE as error:
        lines = [line.strip() for line in str(error).strip().splitlines()] or [type(error).__name__]
        reason = " ".join(lines[:2])  # torch's second line names the first layer that doesn't fit
        raise UserError(f"checkpoint {checkpoint} cannot be loaded as a policy of {library}: {reason}") from error


def load_networks(
    parts: Mapping[str, Any], checkpoint: Path, library: str, behind: Mapping[str, int] | None = None
) -> None:
    """Load networks that may have more inputs than the checkpoint; new inputs have no effect on them at first.

    Args:
        parts: The networks, by the keys of their weights in the file; other content, such as an optimizer, is ignored.
        checkpoint: The file.
        library: Name of the library that saved the checkpoint, in words.
        behind: Numbers of inputs that stay behind the new ones, like the actions behind the observations, by the keys
            of the networks that have such inputs.

    Raises:
        UserError: If the file is not such a checkpoint, or the networks have other layers.
    """
    with loading_policy(checkpoint, library) as content:
        for name, part in parts.items():
            if isinstance(part, torch.nn.Module):
                part.load_state_dict(_widened(content[name], part.state_dict(), (behind or {}).get(name, 0)))


_STATISTICS = {"mean": 0.0, "var": 1.0, "variance": 1.0, "std": 1.0}
"""Statistics that normalizers keep of each input, by the last word of their names, and neutral values for new
inputs."""


def _widened(
    known: Mapping[str, torch.Tensor], like: Mapping[str, torch.Tensor], behind: int
) -> dict[str, torch.Tensor]:
    """Return weights with zeros, and statistics with neutral values, for inputs that the checkpoint lacks.

    Weights have shape (outputs, inputs), statistics of normalizers (inputs,) or (1, inputs). A normalizer keeps its
    sample count, so it hardly adapts to new inputs: scale them in the task. Convolutional networks stay as they are.
    """
    fitting = dict(known)
    if any(tensor.ndim > 2 for tensor in known.values()):  # behind convolutions, inputs are no observations
        return fitting
    for name, tensor in known.items():
        wanted = like[name].shape if name in like else tensor.shape
        new = _STATISTICS.get(name.rpartition("_")[2], 0.0 if name.endswith("weight") and tensor.ndim == 2 else None)
        if new is not None and tensor.ndim == len(wanted) and tensor.shape[:-1] == wanted[:-1]:
            more = max(0, wanted[-1] - tensor.shape[-1]) if tensor.ndim else 0
            if more:
                first, last = tensor.tensor_split([tensor.shape[-1] - behind], dim=-1)
                fitting[name] = torch.cat([torch.nn.functional.pad(first, (0, more), value=new), last], dim=-1)
    return fitting


class ActingModule(torch.nn.Module):
    """A function from observation groups to actions, and the modules and tensors that it uses."""

    def __init__(
        self, act: Callable[..., Any], sizes: Sequence[tuple[int, int]] = (), **parts: torch.nn.Module | torch.Tensor
    ) -> None:
        """Register what the function uses.

        Args:
            act: The function. With a memory, it also takes each part of the memory, and returns a tuple of the actions
                and of each part of the next memory.
            sizes: Layers and size of each part of its memory.
            parts: Its networks, normalizers, and constants such as limits, by the names that they are saved under.
        """
        super().__init__()
        self._act, self._sizes = act, sizes
        for name, part in parts.items():
            if isinstance(part, torch.nn.Module):
                self.add_module(name, part)
            else:
                self.register_buffer(name, part)

    def memory(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Return the memory at the start of episodes: zeros of shape (layers, rows, size); empty without a memory."""
        device = next((each.device for each in self.parameters()), None)
        return tuple(torch.zeros(layers, rows, size, device=device) for layers, size in self._sizes)

    def forward(self, groups: Mapping[str, torch.Tensor], *memory: torch.Tensor) -> Any:
        """Return deterministic actions of shape (n, actions) for observation groups of shape (n, ...).

        With a memory, return a tuple of the actions and of each part of the next memory.
        """
        return self._act(groups, *memory)


def require_recorded_hash(path: Path, saved: CheckpointSaved, run_id: str) -> None:
    """Refuse a file that is not the checkpoint that a run saved, or its copy.

    Args:
        path: The file.
        saved: Its row in the ledger.
        run_id: The run that saved it.

    Raises:
        UserError: If the file is missing, or its hash differs.
    """
    try:
        found = file_sha256(path)
    except OSError as error:
        raise UserError(f"cannot read checkpoint {path}: {error.strerror}") from error
    if found != saved.sha256:
        raise UserError(
            f"checkpoint {path} has changed since run {run_id} saved it (its SHA-256 differs): restore the file"
        )
