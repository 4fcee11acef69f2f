"""Hashes the code that a task runs, and the part of it that a score depends on."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from ledger_lab.errors import UserError
from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.ledger.meters import package_sha256
from ledger_lab.ledger.source import modules_sha256, source_sha256
from ledger_lab.panels import Panel
from ledger_lab.panels.predicate import resolve_success
from ledger_lab.training.runners.plain_config import plain_config

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_NAMED = re.compile(r'"([A-Za-z_]\w*(?:\.\w+)*):[A-Za-z_<]')
"""Matches the beginning of the name of a function or class in a configuration; captures its module."""
_DOTTED = re.compile(r'"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)"')
"""Matches a name with dots only, as an agent's configuration may name a class."""
_VERSIONED = re.compile(
    r"isaaclab(_(assets|contrib|experimental|mimic|newton|ov|ovphysx|physx|ppisp|rl|tasks|tasks_experimental|teleop"
    r"|visualizers))?|builtins|gymnasium|newton|numpy|rl_games|rsl_rl|skrl|torch|warp"
)
"""Packages whose code has a version in the ledger."""

_POLICY_PARTS = ("observations", "actions", "commands")
"""Parts of an environment that determine what a policy sees and does."""
_SCORED_PARTS = (*_POLICY_PARTS, "scene", "sim", "events", "terminations")
"""Parts of an environment that can change a held-out episode. Rewards and curricula only change a training."""


def code_sha256(task: str, env_cfg: ManagerBasedRLEnvCfg, agent_cfg: Any) -> dict[str, str]:  # noqa: ANN401
    """Return the hashes of the code that a task runs, by top-level package or module.

    These are LedgerLab, the package that registers the task, and every package from which a configuration takes a
    function or a class. Their imports from other packages are not followed. Isaac Lab and the libraries are left out:
    the ledger holds their versions. Comments, docstrings and layout do not count, except those of LedgerLab: it has too
    many files to parse at the start of each training.

    Args:
        task: Gymnasium id of a registered task.
        env_cfg: Resolved configuration of its environment.
        agent_cfg: Resolved configuration of its agent.
    """
    spec = gym.spec(task)
    named = [*_named([spec.entry_point, *spec.kwargs.values(), env_cfg]), *_named([agent_cfg], dotted=True)]
    packages = ["ledger_lab", *sorted({name.partition(".")[0] for name in named} - {"ledger_lab"})]
    return {
        package: package_sha256(package, _sha256 if package == "ledger_lab" else source_sha256)
        for package in packages
        if importlib.util.find_spec(package) is not None
    }


def scoring_code(panel: Panel, env_cfg: ManagerBasedRLEnvCfg) -> dict[str, str]:
    """Return the hashes of the code that a score depends on, apart from packages whose versions the ledger holds.

    These are the modules of the success function, of the environment's class, and of every function and class that the
    configuration names for a held-out episode, with the modules that they import from their own packages; see
    :func:`~ledger_lab.ledger.source.modules_sha256`. Of LedgerLab, only the tasks are included. They are in the
    identity of the panel.

    Args:
        panel: The panel.
        env_cfg: Resolved configuration of the environment.

    Returns:
        Hashes by module. Comments, docstrings and layout do not count. A success function that can't be imported has
        none.
    """
    with suppress(UserError):
        resolve_success(panel)  # a module beside the panel file can be found from now on
    return _modules(panel.task, env_cfg, _SCORED_PARTS, _named([panel.success_function]))


def policy_code(task: str, env_cfg: ManagerBasedRLEnvCfg, agent_cfg: Any) -> dict[str, str]:  # noqa: ANN401
    """Return the hashes of the code that determines what a policy sees and does, and how it decides.

    Args:
        task: Gymnasium id of a registered task.
        env_cfg: Resolved configuration of its environment.
        agent_cfg: Resolved configuration of its agent, which may name classes of the user.

    Returns:
        Hashes by module, as in :func:`scoring_code`.
    """
    return _modules(task, env_cfg, _POLICY_PARTS, _named([agent_cfg], dotted=True))


def _modules(task: str, env_cfg: ManagerBasedRLEnvCfg, parts: Sequence[str], others: list[str]) -> dict[str, str]:
    """Return the hashes of the modules that parts of an environment name, of its own class, and of other modules."""
    named = [*_named([gym.spec(task).entry_point, *(getattr(env_cfg, name, None) for name in parts)]), *others]
    return modules_sha256(
        name for name in named if name.partition(".")[0] != "ledger_lab" or name.startswith("ledger_lab.tasks.")
    )


def changed_code(now: dict[str, str], declared: dict[str, str] | None) -> dict[str, str]:
    """Return the code that has changed since a run was declared.

    Args:
        now: Present hashes of the code, or of a part of it.
        declared: Hashes when the run was declared; ``None`` if the run did not record them.

    Returns:
        Hashes of what was added or changed, by name. What has only moved is left out, and so is what is not used any
        more: what used it has changed.
    """
    return {} if declared is None else {name: found for name, found in now.items() if found not in declared.values()}


def _named(settings: list[Any], *, dotted: bool = False) -> list[str]:
    """Return the modules of the functions and classes that settings name, without those of versioned packages.

    Args:
        settings: Parts of a configuration.
        dotted: Whether names with dots only count, too.
    """
    text = canonical_json(plain_config(settings)).decode()
    found = _NAMED.findall(text)
    for name in _DOTTED.findall(text) if dotted else ():
        package = name.partition(".")[0]
        if not _VERSIONED.fullmatch(package) and importlib.util.find_spec(package) is not None:
            found.append(name.rpartition(".")[0])
    return sorted({name for name in found if not _VERSIONED.fullmatch(name.partition(".")[0])})


def _sha256(content: bytes) -> str:
    """Return the hash of a file's content."""
    return hashlib.sha256(content).hexdigest()
