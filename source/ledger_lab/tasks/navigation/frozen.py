"""The frozen walking policy: where its file is, and a check that it is the expected file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ledger_lab.documents import read_json
from ledger_lab.errors import UserError
from ledger_lab.panels.identity import few_differences
from ledger_lab.tasks.exported import CONTRACT, POLICY, read_origin

WALKING_TASK = "LedgerLab-Velocity-Flat-AnymalC"
"""Task that the policy was trained on; it defines the observations and actions."""
WALKING_POLICY = Path(__file__).resolve().parent / "walker" / POLICY
"""The policy that comes with the navigation task, with its contract beside it.

It is a part of the task: another policy is another panel id. So it does not change when the pretrained policy of
:data:`WALKING_TASK` changes.
"""
_SETTING = "env.actions.velocity.policy_path"


def load_walking_policy(path: str) -> torch.jit.ScriptModule:
    """Load a policy that walks, on the CPU, as ``scripts/export_policy.py`` wrote it with its contract beside it.

    Args:
        path: File ``policy.pt``; an absolute path, so that the panel's identity contains the hash of its content.

    Returns:
        Policy from observations of shape (n, 48) to joint actions of shape (n, 12), with its normalizer inside.

    Raises:
        UserError: If it is missing, does not match its contract, or was trained on another task or with other
            observations, actions or rates.
    """
    file = Path(path)
    if not file.is_absolute() or not file.is_file():
        raise UserError(
            f"the walking policy is missing: {path} is not the absolute path of a file: train {WALKING_TASK}, export "
            f"its policy with scripts/export_policy.py RUN --to DIR, and set {_SETTING}=/…/DIR/policy.pt"
        )
    ours = file == WALKING_POLICY
    origin = read_origin(file, "install ledger_lab again" if ours else "export it again with scripts/export_policy.py")
    if origin.task != WALKING_TASK:
        raise UserError(f"{_SETTING}: {path} is a policy of {origin.task}: name a policy of {WALKING_TASK}")
    if not ours and (other := few_differences(_interface(_contract(file)), _interface(_contract(WALKING_POLICY)))):
        raise UserError(f"{_SETTING}: {path} has other observations or actions than {WALKING_TASK}: {other}")
    policy: torch.jit.ScriptModule = torch.jit.load(path, map_location="cpu")
    for parameter in policy.parameters():
        parameter.requires_grad_(False)
    return policy.eval()


def _contract(policy: Path) -> dict[str, Any]:
    """Return the contract beside a policy, which :func:`read_origin` has checked before."""
    return read_json(policy.parent / CONTRACT)


def _interface(contract: dict[str, Any]) -> dict[str, Any]:
    """Return the observations, actions and rates in a contract."""
    named = {
        f"observations.{term['name']}": term for group in contract.get("observations", ()) for term in group["terms"]
    }
    named |= {f"actions.{term['name']}": term for term in contract.get("actions", ())}
    return {"rates": contract.get("rates"), **named}
