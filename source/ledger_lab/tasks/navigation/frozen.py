"""The policy that walks: where it lies, and whether it is the one that is meant."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torch

from ledger_lab.errors import UserError, first_line
from ledger_lab.pretrained import CONTRACT, POLICY, ROOT

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
    try:
        contract = json.loads((file.parent / CONTRACT).read_bytes())
        task, expected = contract["policy"]["task"], contract["files"][POLICY]["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{_SETTING}: no contract.json beside {path} says what it is ({first_line(error)}): let "
            "scripts/export_policy.py write both"
        ) from error
    if task != WALKING_TASK:
        raise UserError(f"{_SETTING}: {path} is a policy of {task}, and one of {WALKING_TASK} is needed")
    if hashlib.sha256(file.read_bytes()).hexdigest() != expected:
        raise UserError(
            f"{path} is not what its contract.json describes, its SHA-256 differs: export it again, or where it came "
            "with ledger_lab, install that again"
        )
    policy: torch.jit.ScriptModule = torch.jit.load(path, map_location="cpu")
    for parameter in policy.parameters():
        parameter.requires_grad_(False)
    return policy.eval()
