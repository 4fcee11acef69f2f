"""Checkpoints that policies are made of, and what must hold for them to be the policies that were trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledger_lab.checkpoints.find import FoundCheckpoint
from ledger_lab.checkpoints.shipped import home_of
from ledger_lab.errors import UserError
from ledger_lab.files import file_sha256
from ledger_lab.ledger import CheckpointSaved, Run
from ledger_lab.panels import few_differences
from ledger_lab.runners import Adapter, load_adapter
from ledger_lab.runners.configs import config_sha256, names_code, resolve_configs
from ledger_lab.runners.description import describe_simulation
from ledger_lab.runners.session import held_out_config

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A checkpoint to be scored, and how to make a policy of it."""

    run_id: str
    source: Path
    """Directory that the checkpoint lies in: the run's, also where that came with the package."""
    run_dir: Path
    """Directory for what is made of it: the run's own, or where it is going to be."""
    saved: CheckpointSaved
    adapter: Adapter
    agent_cfg: Any

    @property
    def path(self) -> Path:
        """The file."""
        return self.source / self.saved.path


def declared_configs(run: Run, *, trust_run: bool = False) -> tuple[ManagerBasedRLEnvCfg, Any]:
    """Resolve the configurations of the environment and of the agent that a run declared.

    Args:
        run: The run, of a registered task.
        trust_run: Whether overrides of the run may name functions, classes and files, which are then loaded.

    Raises:
        UserError: If the task does not take the overrides any more, or one names code that is not trusted.
    """
    declared = run.declared
    if not trust_run and (named := next(filter(names_code, declared.overrides), None)) is not None:
        raise UserError(
            f"run {declared.run_id} declared {named!r}, which may name Python to run: if you trust its author, "
            "say --trust_run"
        )
    return resolve_configs(declared.task, declared.rl_library, declared.overrides, declared.agent)


def resolve_candidate(
    checkpoint: FoundCheckpoint, configs: tuple[ManagerBasedRLEnvCfg, Any], device: str, log_root: Path
) -> Candidate:
    """Resolve what a checkpoint's policy is made with.

    Args:
        checkpoint: The checkpoint.
        configs: What :func:`declared_configs` returned for its run; the agent's configuration may change.
        device: Where the policy is going to act.
        log_root: Root of the ledger, for what is made of a checkpoint that came with the package.

    Raises:
        UserError: If its agent, or what that sees or does, is configured otherwise than when it was trained, or if it
            has a memory.
    """
    declared = checkpoint.run.declared
    adapter = load_adapter(declared.rl_library)
    env_cfg, agent_cfg = configs[0], adapter.prepare(configs[1], device)
    adapter.require_memoryless(agent_cfg)
    if hash_configs(env_cfg, agent_cfg, adapter)["agent"] != declared.config_sha256["agent"]:
        raise UserError(
            f"the agent of {declared.task} is configured otherwise than when run {declared.run_id} was trained, so its "
            f"checkpoints might become other policies: compare {checkpoint.run.directory / 'params' / 'agent.yaml'}"
        )
    require_same_task(checkpoint.run, env_cfg, ("observations", "actions"), "its policy would see or do something else")
    return Candidate(
        run_id=declared.run_id,
        source=checkpoint.run.directory,
        run_dir=home_of(checkpoint.run, log_root),
        saved=checkpoint.saved,
        adapter=adapter,
        agent_cfg=agent_cfg,
    )


def require_same_task(run: Run, env_cfg: ManagerBasedRLEnvCfg, parts: Sequence[str], otherwise: str) -> None:
    """Refuse a task that is not any more what a policy was trained for.

    Parts are compared as wholes, observations with their noise. Where sensors look from and joints rest is said by the
    ``scene``, which also holds the ground: without that part, both may have changed.

    Args:
        run: The run that trained it.
        env_cfg: The environment that its task and its overrides make today.
        parts: What must be the same of it, like ``observations``; its time step must, too.
        otherwise: What would be wrong otherwise.

    Raises:
        UserError: If something differs, or the run does not say what it was.
    """

    def stated(fields: dict[str, Any]) -> dict[str, Any]:
        hashes = fields.get("environment_sha256", {})
        return {"time_step": fields.get("time_step")} | {part: hashes.get(part) for part in parts}

    now, then = stated(describe_simulation(held_out_config(env_cfg, 1))), stated(run.declared.panel_fields)
    if differences := few_differences(now, then):
        written = run.directory / "params" / "env.yaml"
        raise UserError(
            f"task {run.declared.task} is not what it was when run {run.declared.run_id} was trained, so {otherwise}: "
            f"{differences} (now != then). Restore {f'what {written} says' if written.exists() else 'that'}, or train "
            "a new run"
        )


def require_unchanged(path: Path, saved: CheckpointSaved, run_id: str) -> None:
    """Refuse a checkpoint that is not the one that the ledger speaks of.

    Args:
        path: The file.
        saved: What the ledger says of it.
        run_id: The run that saved it.

    Raises:
        UserError: If the file is missing, or its hash differs.
    """
    try:
        found = file_sha256(path)
    except OSError as error:
        raise UserError(f"cannot read checkpoint {path}: {error.strerror}") from error
    if found != saved.sha256:
        raise UserError(f"checkpoint {path} is not what run {run_id} saved: its SHA-256 differs")


def hash_configs(env_cfg: ManagerBasedRLEnvCfg, agent_cfg: Any, adapter: Adapter) -> dict[str, str]:
    """Return the hashes of what is trained and how, without where, how long and under which names."""
    return {
        "env": config_sha256(env_cfg, without=("sim", "seed", "log_dir", "viewer", "video_recorders")),
        "agent": config_sha256(agent_cfg, without=adapter.circumstances),
    }
