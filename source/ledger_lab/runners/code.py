"""Which code a task runs here."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING

import gymnasium as gym

from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.meters import source_sha256
from ledger_lab.runners.configs import plain_config

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_NAMED = re.compile(r'"(\w+)[\w.]*:[A-Za-z_][\w.]*"')
"""How a configuration names a function or a class, with the top-level package of its module."""
_VERSIONED = re.compile(r"isaaclab(_.*)?|builtins|gymnasium|newton|torch|warp")
"""Packages whose code has a version in the ledger."""


def code_sha256(task: str, env_cfg: ManagerBasedRLEnvCfg) -> dict[str, str]:
    """Return the hashes of the code that a task runs, by top-level package or module.

    It is LedgerLab's, and that of every package that the task is registered with, or that its configuration takes a
    function or a class from. What these import from further packages is not seen; Isaac Lab's code has a version.

    Args:
        task: Gymnasium id of a registered task.
        env_cfg: Resolved configuration of its environment.
    """
    spec = gym.spec(task)
    entries = [spec.entry_point, *spec.kwargs.values(), env_cfg]
    named = _NAMED.findall(canonical_json(plain_config(entries)).decode())
    packages = ["ledger_lab", *sorted({name for name in named if not _VERSIONED.fullmatch(name)} - {"ledger_lab"})]
    # A file's hash, ``sha256:…``, looks like a name, too, and no module is called so.
    return {package: source_sha256(package) for package in packages if importlib.util.find_spec(package) is not None}
