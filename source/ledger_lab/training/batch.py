"""Batch arithmetic: does it work out, and what does it ask of the learning rate?"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from ledger_lab.errors import UserError
from ledger_lab.recipes import scaled_learning_rate
from ledger_lab.runners import Adapter, BatchPlan
from ledger_lab.runners.configs import read_setting, require_values, resolve_configs


def check_batch(num_envs: int, batch: BatchPlan, *, by_flag: bool = True) -> None:
    """Check that a batch splits into equal minibatches.

    Args:
        num_envs: Environments per process.
        batch: The library's batch arithmetic.
        by_flag: Whether the number of environments is from ``--num_envs``; otherwise it is the task's.

    Raises:
        UserError: If it doesn't, with numbers of environments that do.
    """
    step = batch.num_envs_step()
    if num_envs % step == 0:
        return
    below, above = num_envs // step * step, -(-num_envs // step) * step
    fitting = " or ".join(str(count) for count in (below, above) if count > 0)
    parts = (
        f"{batch.minibatches} equal minibatches"
        if batch.minibatches is not None
        else f"minibatches of {batch.minibatch_size}"
    )
    setting, many = batch.minibatch_setting, f"{fitting} environments (any multiple of {step})"
    steps = f"{num_envs} × {batch.horizon} = {num_envs * batch.horizon} steps"
    if by_flag:
        raise UserError(
            f"--num_envs {num_envs}: a batch of {steps} does not split into {parts}, which "
            f"{setting} asks for: use {many}"
        )
    raise UserError(
        f"{setting} asks for {parts}, and the task's batch of {steps} does not split into them: change {setting}, or "
        f"set env.scene.num_envs to {many}"
    )


def scale_learning_rate(args: Namespace, adapter: Adapter, overrides: Sequence[str], processes: int) -> str:
    """Return the override that scales a learning rate from the batch it was chosen for to the one asked for.

    The reference is what the task is registered with: its number of environments, and the agent's own configuration, in
    one process. Several processes average their gradients, so that each adds to the batch.

    Args:
        args: Parsed command line of ``scripts/train.py``.
        adapter: The library.
        overrides: Hydra overrides of the command line.
        processes: Processes of the training.

    Raises:
        UserError: If the learning rate is given on the command line, too.
    """
    key = adapter.dialect.overrides["learning_rate"]
    if any(override.partition("=")[0] == key for override in overrides):
        raise UserError(f"--scale_lr scales the task's own learning rate: leave out {key}=…, or --scale_lr")
    (own_env, own_agent), (env_cfg, agent_cfg) = (
        resolve_configs(args.task, adapter.library, chosen, args.agent) for chosen in ([], overrides)
    )
    reference = _plan(adapter, own_agent).effective_batch(own_env.scene.num_envs)
    batch = _plan(adapter, agent_cfg).effective_batch((args.num_envs or env_cfg.scene.num_envs) * processes)
    learning_rate = read_setting(agent_cfg, key)
    if not isinstance(learning_rate, float):
        raise UserError(f"--scale_lr: {key} is {learning_rate!r}, which is no learning rate to scale")
    return f"{key}={scaled_learning_rate(learning_rate, batch, reference)}"


def _plan(adapter: Adapter, agent_cfg: Any) -> BatchPlan:
    """Read the batch arithmetic of a freshly resolved configuration."""
    prepared = adapter.prepare(agent_cfg, "cpu")
    require_values(prepared, adapter)
    try:
        return adapter.plan(prepared)
    except ValueError as error:
        raise UserError(f"the agent's configuration: {error}") from error
