"""What ``scripts/export_policy.py`` writes, for those who read it: light, and without torch."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from pathlib import Path

from ledger_lab.errors import UserError, first_line

__all__ = ["CONTRACT", "POLICY", "Origin", "read_origin"]

CONTRACT, POLICY = "contract.json", "policy.pt"
"""What one must know to run the policy, and the policy as TorchScript."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where an exported policy comes from."""

    task: str
    checkpoint: str
    """Its checkpoint, from the run's directory."""
    checkpoint_sha256: str


def read_origin(policy: Path, way_out: str) -> Origin:
    """Return where a policy as TorchScript comes from, as the contract beside it says, which must be its own.

    Args:
        policy: The policy, as ``scripts/export_policy.py`` wrote it.
        way_out: What to do where something is amiss.

    Raises:
        UserError: If the policy or its contract can't be read, or the contract describes another policy.
    """
    try:
        found = hashlib.sha256(policy.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {policy}: {error.strerror}; {way_out}") from error
    try:
        contract = json.loads((policy.parent / CONTRACT).read_bytes())
        expected, about = contract["files"][POLICY]["sha256"], contract["policy"]
        origin = Origin(**{field.name: about[field.name] for field in fields(Origin)})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"no {CONTRACT} beside {policy} says what it is ({first_line(error)}): {way_out}") from error
    if found != expected:
        raise UserError(f"{policy} is not what its {CONTRACT} describes, its SHA-256 differs: {way_out}")
    return origin
