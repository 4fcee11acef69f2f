"""The policy that walks: where it lies, and whether it is the one that is meant."""

from __future__ import annotations

from pathlib import Path

import torch

from ledger_lab.errors import UserError
from ledger_lab.exported import POLICY, read_origin
from ledger_lab.pretrained import ROOT

WALKING_TASK = "LedgerLab-Velocity-Flat-AnymalC"
"""Task that the policy was trained on, which says what it sees and does."""
WALKING_POLICY = ROOT / WALKING_TASK / POLICY
"""The policy that comes with the package."""
_SETTING = "env.actions.velocity.policy_path"


def load_walking_policy(path: str) -> torch.jit.ScriptModule:
    """Load a policy that walks, on the CPU, as ``scripts/export_policy.py`` wrote it with its contract beside it.

    Args:
        path: Its file, ``policy.pt``; the whole path, so that a panel's identity has the hash of what is in it.

    Returns:
        What turns observations of shape (n, 48) into joint actions of shape (n, 12), with its normalizer inside.

    Raises:
        UserError: If it is missing, is not what its contract describes, or was trained on another task.
    """
    file = Path(path)
    if not file.is_absolute() or not file.is_file():
        raise UserError(
            f"the policy that walks is missing: {path} is no file with its whole path: train {WALKING_TASK}, export it "
            f"with scripts/export_policy.py RUN --to DIR, and say {_SETTING}=/…/DIR/policy.pt"
        )
    ours = file == WALKING_POLICY
    origin = read_origin(file, "install ledger_lab again" if ours else "export it again with scripts/export_policy.py")
    if origin.task != WALKING_TASK:
        raise UserError(f"{_SETTING}: {path} is a policy of {origin.task}, and one of {WALKING_TASK} is needed")
    policy: torch.jit.ScriptModule = torch.jit.load(path, map_location="cpu")
    for parameter in policy.parameters():
        parameter.requires_grad_(False)
    return policy.eval()
