"""Hashes the code that a task runs."""

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
"""Matches the name of a function or class in a configuration; captures its top-level package."""
_VERSIONED = re.compile(r"isaaclab(_.*)?|builtins|gymnasium|newton|torch|warp")
"""Packages whose code has a version in the ledger."""


def code_sha256(task: str, env_cfg: ManagerBasedRLEnvCfg) -> dict[str, str]:
    """Return the hashes of the code that a task runs, by top-level package or module.

    These are LedgerLab, the package that registers the task, and every package from which the configuration takes a
    function or a class. Their imports from other packages are not followed. Isaac Lab is left out: the ledger holds
    its version.

    Args:
        task: Gymnasium id of a registered task.
        env_cfg: Resolved configuration of its environment.
    """
    spec = gym.spec(task)
    entries = [spec.entry_point, *spec.kwargs.values(), env_cfg]
    named = _NAMED.findall(canonical_json(plain_config(entries)).decode())
    packages = ["ledger_lab", *sorted({name for name in named if not _VERSIONED.fullmatch(name)} - {"ledger_lab"})]
    # A file's hash, ``sha256:…``, also matches, but no module has that name.
    return {package: source_sha256(package) for package in packages if importlib.util.find_spec(package) is not None}
