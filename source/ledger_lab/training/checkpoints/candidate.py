"""Checkpoints to load policies from, and checks that each policy is still the policy that was trained."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ledger_lab.errors import UserError
from ledger_lab.files import make_folder
from ledger_lab.ledger import Run, RunDeclared
from ledger_lab.panels import few_differences
from ledger_lab.panels.ground import declared_ground
from ledger_lab.reports import summarize_run
from ledger_lab.tasks.recipes.settings import names_code
from ledger_lab.tasks.registry import require_task
from ledger_lab.training.checkpoints.find import FoundCheckpoint, best_checkpoint
from ledger_lab.training.checkpoints.request import CheckpointRequest
from ledger_lab.training.checkpoints.shipped import is_shipped, output_directory, result_in_words
from ledger_lab.training.runners import Adapter, load_adapter
from ledger_lab.training.runners.configs import resolve_configs
from ledger_lab.training.runners.description import (
    changed_code,
    describe_simulation,
    hash_configs,
    policy_code,
)
from ledger_lab.training.runners.session import held_out_config

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_NAMED = 8
"""Largest number of modules that a refusal names."""


@dataclass(frozen=True, kw_only=True)
class Candidate(FoundCheckpoint):
    """A checkpoint, and all that is needed to load its policy."""

    log_root: Path
    """Root of the ledger, for outputs of a checkpoint that came with the package."""
    adapter: Adapter
    agent_cfg: Any
    changed_code: dict[str, str]
    """Code that has changed since the run was declared, with its hashes, by module."""

    @functools.cached_property
    def run_dir(self) -> Path:
        """Directory for outputs, see :func:`~ledger_lab.training.checkpoints.shipped.output_directory`."""
        return output_directory(self.run, self.log_root)

    def folder(self, *names: str) -> Path:
        """Create a folder for outputs in :attr:`run_dir`, unless it exists, and return it.

        Args:
            names: Names of the folder and of those around it.

        Raises:
            UserError: If it can't be created or written to, or there is a link between the run's directory and it.
        """
        folder = self.run_dir.joinpath(*names)
        make_folder(self.run_dir)
        make_folder(folder, root=self.run_dir)
        return folder

    def print_notes(self, console: Console) -> None:
        """Print the result of a policy that came with the package, and the code that has changed since its training.

        Args:
            console: Where to print.
        """
        if is_shipped(self.run.directory):
            said = f"pretrained: run {self.run_id} {result_in_words(summarize_run(self.run))}"
            console.print(said, markup=False, soft_wrap=True)
        if self.changed_code:
            said = f"note: code has changed since run {self.run_id} was declared: {', '.join(self.changed_code)}"
            console.print(said, markup=False, soft_wrap=True)


def open_candidate(request: CheckpointRequest, device: str) -> tuple[Candidate, ManagerBasedRLEnvCfg]:
    """Find the policy that a user names, and resolve all that is needed to load it.

    Args:
        request: What the user asks for.
        device: Device of the policy.

    Returns:
        The candidate, and the configuration of its environment.

    Raises:
        UserError: If nothing matches the name, the task is not registered, or for the reasons of
            :func:`declared_configs` and :func:`resolve_candidate`.
    """
    found = best_checkpoint(request.source(), request.log_root)
    declared = found.run.declared
    require_task(declared.task, declared.rl_library, declared.agent)
    configs = declared_configs(found.run, trust_run=request.trust_run)
    allowed = request.allow_changed_code
    candidate = resolve_candidate(found, configs, device, request.log_root, allow_changed_code=allowed)
    return candidate, configs[0]


def declared_configs(run: Run, *, trust_run: bool = False) -> tuple[ManagerBasedRLEnvCfg, Any]:
    """Resolve the configurations of the environment and of the agent that a run declared.

    Args:
        run: The run, of a registered task.
        trust_run: Whether overrides of the run may name functions, classes and files, which are then loaded.

    Raises:
        UserError: If the task no longer accepts the overrides, or an override names code that is not trusted.
    """
    declared = run.declared
    if not trust_run and (named := next(filter(names_code, declared.overrides), None)) is not None:
        raise UserError(
            f"run {declared.run_id} declared {named!r}, which may run Python code: if you trust the authors of the "
            "run, add --trust_run"
        )
    return resolve_configs(declared.task, declared.rl_library, declared.overrides, declared.agent)


def resolve_candidate(
    checkpoint: FoundCheckpoint,
    configs: tuple[ManagerBasedRLEnvCfg, Any],
    device: str,
    log_root: Path,
    *,
    scored: Mapping[str, str] | None = None,
    allow_changed_code: bool = False,
) -> Candidate:
    """Resolve all that is needed to load a checkpoint's policy.

    Args:
        checkpoint: The checkpoint.
        configs: Result of :func:`declared_configs` for its run; the agent's configuration may be modified.
        device: Device of the policy.
        log_root: Root of the ledger, for outputs of a checkpoint that came with the package.
        scored: Present hashes of code that must be as declared besides that of the policy; ``None`` for none.
        allow_changed_code: Whether code may differ nevertheless.

    Raises:
        UserError: If the configuration of the agent, of its observations or of its actions has changed since the
            training, or code has, or the file is not the one that the run saved.
    """
    declared = checkpoint.run.declared
    adapter = load_adapter(declared.rl_library, declared.agent)
    env_cfg, agent_cfg = configs[0], adapter.prepare(configs[1], device)
    require_same_agent(checkpoint.run, env_cfg, agent_cfg, adapter)
    require_same_task(checkpoint.run, env_cfg, ("observations", "actions"), "its policy would see or do something else")
    code = {**policy_code(declared.task, *configs), **(scored or {})}
    changed = require_same_code(declared, code, allow_changed_code)
    checkpoint.require_unchanged()
    return Candidate(
        run=checkpoint.run,
        saved=checkpoint.saved,
        log_root=log_root,
        adapter=adapter,
        agent_cfg=agent_cfg,
        changed_code=changed,
    )


def require_same_agent(run: Run, env_cfg: ManagerBasedRLEnvCfg, agent_cfg: Any, adapter: Adapter) -> None:  # noqa: ANN401
    """Refuse checkpoints of an agent whose configuration has changed.

    Args:
        run: The run that saved them.
        env_cfg: Present configuration of its environment.
        agent_cfg: Present configuration of its agent, prepared by the adapter.
        adapter: The adapter of its library.

    Raises:
        UserError: If the configuration of the agent has changed since the training.
    """
    declared = run.declared
    if hash_configs(env_cfg, agent_cfg, adapter)["agent"] != declared.config_sha256["agent"]:
        raise UserError(
            f"the agent configuration of {declared.task} has changed since run {declared.run_id} was trained, so its "
            "checkpoints may load as other policies: restore the configuration in "
            f"{run.directory / 'params' / 'agent.yaml'}"
        )


def require_same_code(declared: RunDeclared, code: dict[str, str], allow_changed_code: bool) -> dict[str, str]:
    """Refuse code that has changed since a run was declared.

    Args:
        declared: The declaration of the run. If it has no hashes of code, nothing can be compared.
        code: Present hashes of the code that must be as declared.
        allow_changed_code: Whether it may differ nevertheless.

    Returns:
        The changed code, with its hashes; empty if it is as declared, or unknown.

    Raises:
        UserError: If code has changed; the message names the modules.
    """
    changed = changed_code(code, declared.scoring_code)
    if changed and not allow_changed_code:
        names = [*changed] if len(changed) <= _NAMED else [*list(changed)[:_NAMED], f"{len(changed) - _NAMED} more"]
        raise UserError(
            f"code of task {declared.task} has changed since run {declared.run_id} was declared: {', '.join(names)}. "
            "Restore the code, train a new run, or use --allow_changed_code"
        )
    return changed


def require_same_task(run: Run, env_cfg: ManagerBasedRLEnvCfg, parts: Sequence[str], otherwise: str) -> None:
    """Refuse a task that has changed since a policy was trained on it.

    Each part is compared as a whole; observations include their noise. The part ``scene`` holds the ground, the places
    of sensors and the default joint positions: these may have changed if ``scene`` is not among the parts.

    Args:
        run: The run that trained the policy.
        env_cfg: Present configuration of the environment, with the overrides of the run.
        parts: Parts that must be unchanged, like ``observations``. The time step must always be unchanged.
        otherwise: Consequence of a change, for the error message.

    Raises:
        UserError: If a part differs, or the run did not record it.
    """
    declared = run.declared.panel_fields

    def stated(fields: dict[str, Any]) -> dict[str, Any]:
        hashes, order = fields.get("environment_sha256", {}), fields.get("order", {})
        found = {"time_step": fields.get("time_step")} | {part: hashes.get(part) for part in parts}
        return found | {f"order of {part}": order.get(part) for part in parts}

    now = describe_simulation(held_out_config(env_cfg, 1, ground=declared_ground(declared)))
    if differences := few_differences(stated(now), stated(declared)):
        written = run.directory / "params" / "env.yaml"
        raise UserError(
            f"task {run.declared.task} has changed since run {run.declared.run_id} was trained, so {otherwise}: "
            f"{differences} (now != then). Restore the task{f' as in {written}' if written.exists() else ''}, or train "
            "a new run"
        )
