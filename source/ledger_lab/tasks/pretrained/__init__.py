"""Policies that come with the package, one folder per task.

A folder reads like the directory of the run that trained the policy. Its journals are excerpts of the run's journals:
they prove the shipped checkpoint, and record its cost. They hold no telemetry, no other checkpoints and
no stand-alone evaluations (see ``tools/excerpt.py``). Beside them are the policy as TorchScript and its
contract, written by ``scripts/export_policy.py``. Only ``tools.ship_policy`` of the repository writes such folders.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from ledger_lab.documents import read_json
from ledger_lab.errors import UserError, nearest
from ledger_lab.tasks.exported import CONTRACT, POLICY, read_origin

__all__ = ["ROOT", "shipped_checkpoint", "shipped_contract", "shipped_policy", "shipped_tasks"]

ROOT = Path(__file__).resolve().parent
"""Folder that contains them."""


def shipped_tasks() -> list[str]:
    """Return the ids of the tasks with a pretrained policy."""
    return sorted(contract.parent.name for contract in ROOT.glob(f"*/{CONTRACT}"))


def shipped_contract(task: str) -> dict[str, Any]:
    """Return the contract of a task's policy, which describes how to run it; see ``scripts/export_policy.py``.

    Args:
        task: Gymnasium id of the task.

    Raises:
        UserError: If the task has no pretrained policy, or its contract can't be read.
    """
    path = _folder(task) / CONTRACT
    try:
        contract = read_json(path)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}; install ledger_lab again") from error
    return contract


def shipped_checkpoint(task: str) -> Path:
    """Return the shipped checkpoint of a task, in the directory of its run.

    It is used like any other checkpoint; its hash is checked when it is used.

    Args:
        task: Gymnasium id of the task.

    Raises:
        UserError: If the task has no pretrained policy, or the file is missing.
    """
    path = ROOT / task / str(shipped_contract(task)["policy"]["checkpoint"])
    if not path.is_file():
        raise UserError(f"{path} is missing: install ledger_lab again")
    return path


def shipped_policy(task: str) -> Path:
    """Return the pretrained policy of a task as TorchScript, which needs no RL library.

    It takes observations of shape (n, observations), float32, and returns actions of shape (n, actions).

    Args:
        task: Gymnasium id of the task.

    Raises:
        UserError: If the task has no pretrained policy, or the file is not the shipped file.
    """
    path = _folder(task) / POLICY
    read_origin(path, "install ledger_lab again")
    return path


def _folder(task: str) -> Path:
    """Return a task's folder, if it has one."""
    known = shipped_tasks()
    if task not in known:
        raise UserError(
            f"this version of LedgerLab has no pretrained policy of {task} ({nearest(task, known)}): train a policy "
            f"with scripts/train.py --task {shlex.quote(task)}"
        )
    return ROOT / task
