"""``train.py --checkpoint``: whose networks a run begins with, and what they had cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from isaaclab.managers import SceneEntityCfg
from isaaclab.sensors import SensorBaseCfg

from ledger_lab.checkpoints.candidate import declared_configs, require_same_task, require_unchanged
from ledger_lab.checkpoints.find import best_checkpoint
from ledger_lab.errors import UserError
from ledger_lab.panels import few_differences
from ledger_lab.physics import is_newton
from ledger_lab.pretrained import shipped_checkpoint
from ledger_lab.reports import summarize_run
from ledger_lab.runners import Adapter
from ledger_lab.runners.configs import plain_config, read_setting
from ledger_lab.tasks.registry import require_task

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_NETWORK = ("hidden_dims", "activation", "observation_normalization")
"""Fields of a recipe without which weights are another network."""
_GROUPS = ("agent.obs_groups", "agent.params.env.obs_groups")
"""Settings that say which groups of observations a network takes, and in which order."""
_UNSEEN = ("noise", "enable_corruption", "debug_vis")
"""Settings that change what a training sees of observations, or what is shown of them, not what they mean."""
_RAYS = ("class_type", "prim_path", "pattern_cfg", "offset", "ray_alignment")
"""Settings of a sensor that say what its readings mean."""


@dataclass(frozen=True)
class Beginning:
    """A checkpoint that a run begins with."""

    path: Path
    told: dict[str, Any]
    """What the ledger keeps of it."""


def find_beginning(
    name: str,
    log_root: Path,
    adapter: Adapter,
    env_cfg: ManagerBasedRLEnvCfg,
    agent_cfg: Any,
    *,
    trust_run: bool = False,
) -> Beginning:
    """Find the checkpoint that a run is to begin with.

    Args:
        name: Checkpoint file, run id or run directory, or a task that a policy comes for.
        log_root: Root of the ledger.
        adapter: The library of the run.
        env_cfg: Its environment.
        agent_cfg: The library's configuration.
        trust_run: See :func:`~ledger_lab.checkpoints.candidate.declared_configs`.

    Raises:
        UserError: If there is none, or its networks are others, or mean something else by what they see or do.
    """
    found = best_checkpoint(str(shipped_checkpoint(name)) if name in gym.registry else name, log_root)
    declared, path = found.run.declared, found.run.directory / found.saved.path
    if declared.rl_library != adapter.library:
        raise UserError(
            f"--checkpoint {name}: run {declared.run_id} was trained by {declared.rl_library}, whose networks "
            f"{adapter.library} can't read: say --rl_library {declared.rl_library}"
        )
    what = f"--checkpoint {path}"
    require_unchanged(path, found.saved, declared.run_id)
    require_task(declared.task, declared.rl_library, declared.agent)
    theirs, their_agent = declared_configs(found.run, trust_run=trust_run)
    require_same_task(found.run, theirs, ("observations", "actions"), f"{what} has learned from something else")
    taken = [read_setting(agent_cfg, setting) or {} for setting in _GROUPS]
    _require_first(_seen(theirs), _seen(env_cfg), [names for groups in taken for names in groups.values()], what)
    if differences := few_differences(_done(env_cfg), _done(theirs)):
        raise UserError(f"{what}: its actions would mean something else: {differences} (now != then)")
    for setting in (*(adapter.dialect.overrides[field] for field in _NETWORK), *_GROUPS):
        now, then = read_setting(agent_cfg, setting), read_setting(their_agent, setting)
        if now != then:
            raise UserError(f"{what}: {setting} was {then} when it was trained, and is {now} now")
    summary = summarize_run(found.run)
    earlier = declared.began_from or {}
    usd = (summary.declared_usd, earlier.get("usd", 0.0))
    told = {
        "run_id": declared.run_id,
        "task": declared.task,
        "checkpoint": found.saved.path,
        "sha256": found.saved.sha256,
        "env_steps": summary.env_steps + earlier.get("env_steps", 0),
        "wall_s": summary.wall_s + earlier.get("wall_s", 0.0),
        "usd": None if usd[0] is None or usd[1] is None else usd[0] + usd[1],
    }
    return Beginning(path.resolve(), told)


@dataclass(frozen=True)
class _Group:
    """Observations that a network takes together."""

    layout: dict[str, Any]
    """How terms are put together, and how many steps of them."""
    terms: list[tuple[str, Any]]
    """Names of the terms, and what says what each means, in order."""


def _seen(env_cfg: ManagerBasedRLEnvCfg) -> dict[str, _Group]:
    """Return the groups of observations."""
    groups = {}
    for name, group in vars(env_cfg.observations).items():
        if group is None:
            continue
        terms = {key: value for key, value in vars(group).items() if hasattr(value, "func")}
        layout = {key: value for key, value in vars(group).items() if value and key not in {*terms, *_UNSEEN}}
        groups[name] = _Group(layout, [(key, _meaning(term, env_cfg)) for key, term in terms.items()])
    return groups


def _meaning(term: Any, env_cfg: ManagerBasedRLEnvCfg) -> list[Any]:  # noqa: ANN401 - of any manager
    """Return what says what a term means: its settings, and of sensors and commands that it names, theirs."""
    said = [_plain(term)]
    for value in (getattr(term, "params", None) or {}).values():
        there = getattr(env_cfg.scene, value.name) if isinstance(value, SceneEntityCfg) else None
        if isinstance(there, SensorBaseCfg):
            said.append({key: setting for key, setting in _plain(there).items() if key in _RAYS})
        elif isinstance(value, str) and (command := getattr(env_cfg.commands, value, None)) is not None:
            said.append(_plain(command)["class_type"])
    return said


def _plain(cfg: Any) -> dict[str, Any]:  # noqa: ANN401 - any of Isaac Lab's configurations
    """Return settings that mean something, files by what is in them."""
    return {key: value for key, value in plain_config(cfg).items() if key not in _UNSEEN}


def _done(env_cfg: ManagerBasedRLEnvCfg) -> dict[str, Any]:
    """Return the actions in their order, and of the robot of each what gives them, and observations, their meaning."""
    said: dict[str, Any] = {}
    for name, term in vars(env_cfg.actions).items():
        if term is not None:
            robot = getattr(env_cfg.scene, term.asset_name)
            order = getattr(robot, "joint_ordering", None)
            said[name] = {
                **_plain(term),
                "place": len(said),
                "default_joint_pos": getattr(getattr(robot, "init_state", None), "joint_pos", None),
                "joint_ordering": order or ("newton" if is_newton(env_cfg) else "physx"),
            }
    return said


def _require_first(
    theirs: dict[str, _Group], ours: dict[str, _Group], taken: Sequence[Sequence[str]], what: str
) -> None:
    """Refuse networks that have seen what is not seen now, or in another order.

    Args:
        theirs: What they have seen.
        ours: What is seen now.
        taken: Per network, the groups that it takes, one behind the other.
        what: What begins with them.
    """
    for name, then in theirs.items():
        now = ours.get(name, _Group({}, []))
        if name in ours and now.layout != then.layout:
            raise UserError(f"{what}: it has seen {name} put together otherwise: {then.layout}, and {now.layout} now")
        for number, (term, meaning) in enumerate(then.terms):
            here = now.terms[number : number + 1]
            if here != [(term, meaning)]:
                there = f"{here[0][0]!r}" if here and here[0][0] != term else "another one" if here else "nothing"
                raise UserError(
                    f"{what}: it has seen {name}.{term} where the task has {there}: what it has seen must come first, "
                    "and unchanged"
                )
        for names in taken:
            if name in names[:-1] and len(now.terms) > len(then.terms):
                raise UserError(f"{what}: {name} has grown, and {names[-1]} comes behind it: only the last group can")
