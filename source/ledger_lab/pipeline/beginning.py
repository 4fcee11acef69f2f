"""``train.py --checkpoint``: whose networks a run begins with, and what they had cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isaaclab.utils import to_dict

from ledger_lab.errors import UserError
from ledger_lab.pipeline.candidate import require_unchanged, resolve_candidate
from ledger_lab.pipeline.find import best_checkpoint
from ledger_lab.pretrained import shipped_checkpoint, shipped_tasks
from ledger_lab.reports import summarize_run
from ledger_lab.runners import Adapter
from ledger_lab.runners.configs import read_setting, resolve_configs
from ledger_lab.runners.session import require_task

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_NETWORK = ("hidden_dims", "activation", "observation_normalization")
"""Fields of a recipe without which weights are another network."""

_UNSEEN = ("noise", "modifiers", "enable_corruption")
"""Settings of observations that change what a training sees of them, not what they mean."""


@dataclass(frozen=True)
class Beginning:
    """A checkpoint that a run begins with."""

    path: Path
    told: dict[str, Any]
    """What the ledger keeps of it."""


def find_beginning(
    name: str, log_root: Path, adapter: Adapter, env_cfg: ManagerBasedRLEnvCfg, agent_cfg: Any
) -> Beginning:
    """Find the checkpoint that a run is to begin with.

    Args:
        name: Checkpoint file, run id or run directory, or a task that a policy comes for.
        log_root: Root of the ledger.
        adapter: The library of the run.
        env_cfg: Its environment.
        agent_cfg: The library's configuration.

    Raises:
        UserError: If there is none, or its networks are others, or mean something else by what they see or do.
    """
    found = best_checkpoint(str(shipped_checkpoint(name)) if name in shipped_tasks() else name, log_root)
    declared, path = found.run.declared, found.run.directory / found.saved.path
    if declared.rl_library != adapter.library:
        raise UserError(
            f"--checkpoint {name}: run {declared.run_id} was trained by {declared.rl_library}, whose networks "
            f"{adapter.library} can't read: say --rl_library {declared.rl_library}"
        )
    what = f"--checkpoint {path}"
    require_task(declared.task, declared.rl_library, declared.agent)
    candidate = resolve_candidate(found, "cpu", log_root)
    require_unchanged(candidate)
    theirs, _ = resolve_configs(declared.task, declared.rl_library, declared.overrides, declared.agent)
    _require_first(dict(_seen(theirs)), dict(_seen(env_cfg)), what)
    if _done(theirs) != _done(env_cfg):
        raise UserError(f"{what}: its policy's actions mean something else to this task, or to its robot")
    for field in _NETWORK:
        setting = adapter.dialect.overrides[field]
        now, then = read_setting(agent_cfg, setting), read_setting(candidate.agent_cfg, setting)
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


def _seen(env_cfg: ManagerBasedRLEnvCfg) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """Yield the groups of observations, and of each how its terms are put together, and the terms in their order."""
    for name, group in vars(env_cfg.observations).items():
        settings, terms = {}, []
        for key, value in vars(group).items() if group else ():
            if hasattr(value, "func"):
                terms.append((key, {k: v for k, v in to_dict(value).items() if k not in _UNSEEN}))
            elif value is not None and key not in _UNSEEN:  # a term that is not there, or a history of no length
                settings[key] = value
        yield name, [("history or layout", settings), *terms]


def _done(env_cfg: ManagerBasedRLEnvCfg) -> list[Any]:
    """Return the actions in their order, and of the robot of each what gives them their meaning."""
    actions = {name: term for name, term in vars(env_cfg.actions).items() if term is not None}
    robots = [getattr(env_cfg.scene, term.asset_name) for term in actions.values()]
    files = [Path(getattr(robot.spawn, "usd_path", "")).name for robot in robots]
    return [
        (name, to_dict(term), robot.init_state.joint_pos, file)
        for (name, term), robot, file in zip(actions.items(), robots, files, strict=True)
    ]


def _require_first(theirs: dict[str, Any], ours: dict[str, Any], what: str) -> None:
    """Refuse networks that have seen what is not seen now, or in another order."""
    for group, terms in theirs.items():
        for number, (name, term) in enumerate(terms):
            now = ours.get(group, [])[number : number + 1]
            if now != [(name, term)]:
                there = f"{now[0][0]!r}" if now and now[0][0] != name else "another one" if now else "nothing"
                raise UserError(
                    f"{what}: its policy sees {group}.{name} where the task has {there}: what it has seen must come "
                    "first, and unchanged"
                )
