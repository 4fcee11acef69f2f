"""Policies that pass for one that walks."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torch

from ledger_lab.tasks.navigation.frozen import WALKING_POLICY, WALKING_TASK


class Sway(torch.nn.Module):
    """Stands on its feet, and moves them a little with all that it sees."""

    def __init__(self, seed: int = 1) -> None:
        """Draw the weights.

        Args:
            seed: Of the draw.
        """
        super().__init__()
        self.weights = torch.nn.Parameter(0.05 * torch.randn(48, 12, generator=torch.Generator().manual_seed(seed)))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Return joint actions of shape (n, 12)."""
        return 0.3 * torch.tanh(obs @ self.weights)


class Crowded(torch.nn.Module):
    """Does what depends on what it did last, and on the number of rows, as the rounding of a matrix product may."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Return joint actions of shape (n, 12)."""
        return 0.3 * torch.tanh(obs[:, :12] - obs[:, 36:]) + 0.0005 * float(obs.shape[0])


def write_policy(folder: Path, policy: torch.nn.Module, task: str = WALKING_TASK) -> str:
    """Write a policy with its contract as ``scripts/export_policy.py`` does, and return its path.

    Args:
        folder: Where to; it is made.
        policy: The policy.
        task: Task that it says it was trained on.
    """
    folder.mkdir(parents=True)
    path = folder / "policy.pt"
    torch.jit.save(torch.jit.script(policy), str(path))
    files = {path.name: {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}}
    about = {"task": task, "checkpoint": "model_1.pt", "checkpoint_sha256": "0" * 64}
    shipped = json.loads((WALKING_POLICY.parent / "contract.json").read_text())
    sees_and_acts = {name: shipped[name] for name in ("rates", "observations", "actions")}
    (folder / "contract.json").write_text(json.dumps({"policy": about, "files": files, **sees_and_acts}))
    return str(path)
