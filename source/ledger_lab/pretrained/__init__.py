"""Policies that come with the package, one folder per task.

A folder reads like the directory of the run that trained the policy. Its journals are excerpts of the run's journals:
they prove the one checkpoint that is shipped, and tell what it cost. They hold no telemetry, no other checkpoints and
no stand-alone evaluations (see :mod:`ledger_lab.ledger.excerpt`). Beside them lie the policy as TorchScript and its
contract, as ``scripts/export_policy.py`` wrote them. ``scripts/ship_policy.py`` makes such folders; nothing else writes
here, and an installed package may be read-only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ledger_lab.errors import UserError, nearest
from ledger_lab.exported import CONTRACT, POLICY, read_origin

__all__ = ["ROOT", "shipped_checkpoint", "shipped_contract", "shipped_policy", "shipped_tasks"]

ROOT = Path(__file__).resolve().parent
"""Where the folders lie."""


def shipped_tasks() -> list[str]:
    """Return the ids of the tasks that a policy comes for."""
    return sorted(contract.parent.name for contract in ROOT.glob(f"*/{CONTRACT}"))


def shipped_contract(task: str) -> dict[str, Any]:
    """Return what one must know to run a task's policy, see ``scripts/export_policy.py``.

    Args:
        task: Gymnasium id of the task.

    Raises:
        UserError: If no policy comes for the task, or its contract can't be read.
    """
    path = _folder(task) / CONTRACT
    try:
        contract: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}; install ledger_lab again") from error
    return contract


def shipped_checkpoint(task: str) -> Path:
    """Return a task's checkpoint, which lies in its run's directory and is used like any other.

    Whether it is what the run saved, is asked where it is used, as of any other.

    Args:
        task: Gymnasium id of the task.

    Raises:
        UserError: If no policy comes for the task, or it is missing.
    """
    path = ROOT / task / str(shipped_contract(task)["policy"]["checkpoint"])
    if not path.is_file():
        raise UserError(f"{path} is missing: install ledger_lab again")
    return path


def shipped_policy(task: str) -> Path:
    """Return a task's policy as TorchScript, which needs no learning library: a part of a larger policy, say.

    It takes observations of shape (n, observations), float32, and returns actions of shape (n, actions).

    Args:
        task: Gymnasium id of the task.

    Raises:
        UserError: If no policy comes for the task, or it is not the one that was shipped.
    """
    path = _folder(task) / POLICY
    read_origin(path, "install ledger_lab again")
    return path


def _folder(task: str) -> Path:
    """Return a task's folder, if it has one."""
    known = shipped_tasks()
    if task not in known:
        raise UserError(
            f"no policy of {task} comes with this ledger_lab ({nearest(task, known)}): train one with "
            f"scripts/train.py --task {task}"
        )
    return ROOT / task
