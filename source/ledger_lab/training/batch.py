"""Checks the batch arithmetic of a training, and scales the learning rate to the batch."""

from __future__ import annotations

import math
from typing import Any

import torch

from ledger_lab.errors import UserError
from ledger_lab.recipes.settings import read_setting, write_setting
from ledger_lab.runners import Adapter, BatchPlan
from ledger_lab.runners.configs import require_values, resolve_configs
from ledger_lab.runners.threads import Threads, threads_for
from ledger_lab.training.request import TrainRequest


def check_batch(num_envs: int, batch: BatchPlan, *, by_flag: bool = True) -> None:
    """Check that a batch splits into equal minibatches.

    Args:
        num_envs: Environments per process.
        batch: The library's batch arithmetic.
        by_flag: Whether the user set the number of environments with ``--num_envs``; otherwise the task sets it.

    Raises:
        UserError: If the batch does not split; the message names numbers of environments that work.
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


def plan_batch(adapter: Adapter, agent_cfg: Any) -> BatchPlan:
    """Read the batch arithmetic of a prepared configuration.

    Args:
        adapter: The library.
        agent_cfg: The library's configuration.

    Raises:
        UserError: If the configuration contradicts itself.
    """
    try:
        return adapter.plan(agent_cfg)
    except ValueError as error:
        raise UserError(f"the agent's configuration: {error}") from error


def plan_threads(adapter: Adapter, agent_cfg: Any, batch: BatchPlan, num_envs: int, device: str) -> Threads:
    """Choose the threads of torch for a training. Call it before the simulation starts, which leaves torch one thread.

    Args:
        adapter: The library.
        agent_cfg: The library's configuration.
        batch: The batch arithmetic.
        num_envs: Environments per process.
        device: Device of the networks.
    """
    widths = read_setting(agent_cfg, adapter.dialect.overrides["hidden_dims"])
    known = isinstance(widths, list | tuple) and len(widths) > 0 and all(type(width) is int for width in widths)
    minibatch = num_envs * batch.horizon // batch.minibatches_of(num_envs)
    return threads_for(torch.get_num_threads(), widths if known else None, num_envs, minibatch, device)


def scale_learning_rate(request: TrainRequest, adapter: Adapter, agent_cfg: Any, effective_batch: int) -> str:
    """Scale the learning rate to the batch of a request.

    The reference is the batch that the registered task and agent configuration have in one process. Several processes
    average their gradients, so each process adds to the batch.

    Args:
        request: The request.
        adapter: The library.
        agent_cfg: The library's configuration; its learning rate is changed.
        effective_batch: Samples of one iteration of the request, over all processes, times the passes over them.

    Returns:
        The override that sets the same learning rate.

    Raises:
        UserError: If the command line also sets the learning rate, or the learning rate is not a number.
    """
    key = adapter.dialect.overrides["learning_rate"]
    if any(override.partition("=")[0] == key for override in request.overrides):
        raise UserError(f"--scale_lr scales the task's own learning rate: leave out {key}=…, or --scale_lr")
    own_env, own_agent = resolve_configs(request.task, adapter.library, [], request.agent)
    own_agent = adapter.prepare(own_agent, "cpu")
    require_values(own_agent, adapter)
    reference = plan_batch(adapter, own_agent).effective_batch(own_env.scene.num_envs)
    learning_rate = read_setting(agent_cfg, key)
    if not isinstance(learning_rate, float):
        raise UserError(f"--scale_lr: {key} is {learning_rate!r}, which is not a number: set it to a number")
    scaled = scaled_learning_rate(learning_rate, effective_batch, reference)
    write_setting(agent_cfg, key, scaled)
    return f"{key}={scaled}"


def scaled_learning_rate(learning_rate: float, batch: int, reference: int) -> float:
    """Scale a learning rate by √2 per doubling of the batch (Krizhevsky 2014, arXiv:1404.5997).

    This keeps the variance of a gradient step when gradients are averaged over more samples.

    Args:
        learning_rate: Learning rate for the reference batch.
        batch: Effective batch: samples that the gradient steps of one iteration see.
        reference: The effective batch that the learning rate was chosen for.

    Returns:
        The learning rate for the batch, to four digits.
    """
    return float(f"{learning_rate * math.sqrt(batch / reference):.4g}")
