"""``train.py --checkpoint``: whose networks a run begins with, and what they had cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isaaclab.utils import to_dict

from ledger_lab.errors import UserError
from ledger_lab.pipeline.find import best_checkpoint
from ledger_lab.pipeline.score import file_sha256
from ledger_lab.reports import summarize_run
from ledger_lab.runners import Adapter
from ledger_lab.runners.configs import read_setting, resolve_configs
from ledger_lab.runners.session import require_task

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_NETWORK = ("hidden_dims", "activation", "observation_normalization")
"""Fields of a recipe without which weights are another network."""

_UNSEEN = ("noise", "modifiers")
"""Settings of an observation that change what a training sees of it, not what it means."""


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
        name: Checkpoint file, run id or run directory.
        log_root: Root of the ledger.
        adapter: The library of the run.
        env_cfg: Its environment.
        agent_cfg: The library's configuration.

    Raises:
        UserError: If there is none, or its networks are others, or mean something else by what they see.
    """
    found = best_checkpoint(name, log_root)
    declared, path = found.run.declared, found.run.directory / found.saved.path
    if declared.rl_library != adapter.library:
        raise UserError(
            f"--checkpoint {name}: run {declared.run_id} was trained by {declared.rl_library}, whose networks "
            f"{adapter.library} can't read: say --rl_library {declared.rl_library}"
        )
    if not path.is_file() or file_sha256(path) != found.saved.sha256:
        raise UserError(f"--checkpoint {path}: is gone, or not what run {declared.run_id} saved")
    require_task(declared.task, declared.rl_library, declared.agent)
    theirs, their_agent = resolve_configs(declared.task, declared.rl_library, declared.overrides, declared.agent)
    _require_first(dict(_seen(theirs)), dict(_seen(env_cfg)), f"--checkpoint {path}")
    for field in _NETWORK:
        setting = adapter.dialect.overrides[field]
        now, then = read_setting(agent_cfg, setting), read_setting(their_agent, setting)
        if now != then:
            raise UserError(f"--checkpoint {path}: {setting} was {then} when it was trained, and is {now} now")
    summary = summarize_run(found.run)
    earlier = declared.began_from or {}
    usd = (summary.declared_usd, earlier.get("usd", 0.0))
    told = {
        "run_id": declared.run_id,
        "task": declared.task,
        "checkpoint": found.saved.path,
        "sha256": found.saved.sha256,
        "env_steps": found.saved.env_steps + earlier.get("env_steps", 0),
        "wall_s": summary.wall_s + earlier.get("wall_s", 0.0),
        "usd": None if usd[0] is None or usd[1] is None else usd[0] + usd[1],
    }
    return Beginning(path.resolve(), told)


def _seen(env_cfg: ManagerBasedRLEnvCfg) -> Iterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """Yield the groups of observations, and of each its terms in their order."""
    for name, group in vars(env_cfg.observations).items():
        terms = [(key, term) for key, term in vars(group).items() if hasattr(term, "func")] if group else []
        yield name, [(key, {k: v for k, v in to_dict(term).items() if k not in _UNSEEN}) for key, term in terms]


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
