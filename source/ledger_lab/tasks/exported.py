"""Reads the files of ``scripts/export_policy.py`` without torch."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from ledger_lab.documents import read_json
from ledger_lab.errors import UserError, first_line

__all__ = ["CONTRACT", "POLICY", "Origin", "read_origin"]

CONTRACT, POLICY = "contract.json", "policy.pt"
"""File names of the contract and of the policy as TorchScript."""


class Origin(msgspec.Struct, kw_only=True, frozen=True):
    """Origin of an exported policy."""

    task: str
    checkpoint: str
    """Its checkpoint, relative to the run's directory."""
    checkpoint_sha256: str


class _Contract(msgspec.Struct):
    """The fields of a contract that are read here."""

    policy: Origin
    files: dict[str, Any]


def read_origin(policy: Path, way_out: str) -> Origin:
    """Return the origin of a TorchScript policy from the contract beside it, and check that the contract is its own.

    Args:
        policy: The policy file, written by ``scripts/export_policy.py``.
        way_out: What the user can do about an error.

    Raises:
        UserError: If the policy or its contract can't be read, or the contract describes another policy.
    """
    try:
        found = hashlib.sha256(policy.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {policy}: {error.strerror}; {way_out}") from error
    try:
        contract = msgspec.convert(read_json(policy.parent / CONTRACT), _Contract)
        expected = contract.files[POLICY]["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"cannot read {CONTRACT} beside {policy} ({first_line(error)}): {way_out}") from error
    if found != expected:
        raise UserError(f"{policy} is not the file that {CONTRACT} describes (its SHA-256 differs): {way_out}")
    return contract.policy
