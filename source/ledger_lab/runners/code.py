"""Hashes the code that a task runs, and the part of it that a score depends on."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.meters import package_sha256
from ledger_lab.runners.configs import plain_config
from ledger_lab.source import definitions_sha256, source_sha256

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_NAMED = re.compile(r'"((\w+)[\w.]*:[A-Za-z_]\w*)[\w.]*"')
"""Matches the name of a function or class in a configuration; captures this name and its top-level package."""
_VERSIONED = re.compile(r"isaaclab(_.*)?|builtins|gymnasium|newton|torch|warp")
"""Packages whose code has a version in the ledger."""


_POLICY_PARTS = ("observations", "actions", "commands")
"""Parts of an environment that determine what a policy sees and does."""
_SCORED_PARTS = (*_POLICY_PARTS, "scene", "sim", "events", "terminations")
"""Parts of an environment that can change a held-out episode. Rewards and curricula only change a training."""


def code_sha256(task: str, env_cfg: ManagerBasedRLEnvCfg) -> dict[str, str]:
    """Return the hashes of the code that a task runs, by top-level package or module.

    These are LedgerLab, the package that registers the task, and every package from which the configuration takes a
    function or a class. Their imports from other packages are not followed. Isaac Lab is left out: the ledger holds
    its version. Comments, docstrings and layout do not count, except those of LedgerLab: it has too many files to parse
    at the start of each training.

    Args:
        task: Gymnasium id of a registered task.
        env_cfg: Resolved configuration of its environment.
    """
    spec = gym.spec(task)
    named = {package for _, package in _named([spec.entry_point, *spec.kwargs.values(), env_cfg])}
    packages = ["ledger_lab", *sorted(named - {"ledger_lab"})]
    # A file's hash, ``sha256:…``, also matches, but no module has that name.
    return {
        package: package_sha256(package, _sha256 if package == "ledger_lab" else source_sha256)
        for package in packages
        if importlib.util.find_spec(package) is not None
    }


def scoring_code(task: str, env_cfg: ManagerBasedRLEnvCfg, success_function: str | None) -> dict[str, str]:
    """Return the hashes of the code that a score depends on, apart from packages whose versions the ledger holds.

    This is the success function, every function and class that the configuration names for a held-out episode, and
    what they refer to in their own package; see :func:`~ledger_lab.source.definitions_sha256`. Of LedgerLab, only the
    tasks are included.

    Args:
        task: Gymnasium id of a registered task.
        env_cfg: Resolved configuration of its environment.
        success_function: ``module:function`` of the panel; ``None`` to leave it out.

    Returns:
        Hashes by ``module:name``. Comments, docstrings and layout do not count.
    """
    return _definitions(task, env_cfg, _SCORED_PARTS, success_function)


def policy_code(task: str, env_cfg: ManagerBasedRLEnvCfg) -> dict[str, str]:
    """Return the part of :func:`scoring_code` that determines what a policy sees and does.

    Args:
        task: Gymnasium id of a registered task.
        env_cfg: Resolved configuration of its environment.
    """
    return _definitions(task, env_cfg, _POLICY_PARTS)


def _definitions(
    task: str, env_cfg: ManagerBasedRLEnvCfg, parts: Sequence[str], success_function: str | None = None
) -> dict[str, str]:
    """Return the hashes of the code that parts of an environment name, and of its own class."""
    settings = [getattr(env_cfg, name, None) for name in parts]
    named = _named([gym.spec(task).entry_point, success_function, *settings])
    return definitions_sha256(
        sorted({name for name, package in named if package != "ledger_lab" or name.startswith("ledger_lab.tasks.")})
    )


def changed_code(now: dict[str, str], declared: dict[str, str] | None) -> dict[str, str]:
    """Return the code that has changed since a run was declared.

    Args:
        now: Present hashes of the code, or of a part of it.
        declared: Result of :func:`scoring_code` when the run was declared; ``None`` if the run did not record it.

    Returns:
        Hashes of what was added or changed, by name. What is not used any more is left out: what used it has changed.
    """
    return {} if declared is None else {name: found for name, found in now.items() if declared.get(name) != found}


def _named(settings: list[Any]) -> list[tuple[str, str]]:
    """Return the functions and classes that settings name, each with its top-level package, without Isaac Lab's."""
    found = _NAMED.findall(canonical_json(plain_config(settings)).decode())
    return [(name, package) for name, package in found if not _VERSIONED.fullmatch(package)]


def _sha256(content: bytes) -> str:
    """Return the hash of a file's content."""
    return hashlib.sha256(content).hexdigest()
