"""Reads the batch arithmetic of a training, and adapts learning rate and minibatches to the batch."""

from __future__ import annotations

import math
import os
from typing import Any

import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger.cores import usable_cores
from ledger_lab.tasks.recipes.settings import read_setting, write_setting
from ledger_lab.training.minibatches import cannot_keep, kept_minibatches, minibatch_size
from ledger_lab.training.request import LearningRateRule, TrainRequest
from ledger_lab.training.runners import Adapter, BatchPlan
from ledger_lab.training.runners.configs import require_values, resolve_configs
from ledger_lab.training.runners.threads import Threads, threads_for


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
    except KeyError as error:
        raise UserError(f"the agent's configuration: {error.args[0]} is missing") from error
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
    samples = num_envs * batch.horizon // batch.minibatches_of(num_envs)
    minibatch = samples if batch.replay is None else batch.replay.batch_size
    available, known_widths = torch.get_num_threads(), widths if known else None
    if "OMP_NUM_THREADS" not in os.environ:  # torch counts cores, and knows no limits of control groups
        available = min(available, usable_cores())
    return threads_for(available, known_widths, num_envs, minibatch, device)


def scale_learning_rate(
    request: TrainRequest, rule: LearningRateRule, adapter: Adapter, agent_cfg: Any, effective_batch: int
) -> str:
    """Scale the learning rate to the batch of a request.

    The reference is the batch that the registered task and agent configuration have in one process. Several processes
    average their gradients, so each process adds to the batch.

    Args:
        request: The request.
        rule: How the learning rate grows with the batch.
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
    own, num_envs = own_batch(request, adapter)
    learning_rate = read_setting(agent_cfg, key)
    if not isinstance(learning_rate, float):
        raise UserError(f"--scale_lr: {key} is {learning_rate!r}, which is not a number: set it to a number")
    scaled = scaled_learning_rate(learning_rate, effective_batch, own.effective_batch(num_envs), rule)
    write_setting(agent_cfg, key, scaled)
    return f"{key}={scaled}"


def keep_minibatch_size(request: TrainRequest, adapter: Adapter, agent_cfg: Any, num_envs: int, processes: int) -> str:
    """Change the number of minibatches, so that a minibatch of all processes has as many samples as the task's own.

    Args:
        request: The request.
        adapter: The library.
        agent_cfg: The library's configuration; its minibatches are changed.
        num_envs: Environments per process.
        processes: Processes of the training.

    Returns:
        The override that sets the same minibatches.

    Raises:
        UserError: If the command line also sets the minibatches, or no whole number of minibatches has that size.
    """
    batch = plan_batch(adapter, agent_cfg)
    key = batch.minibatch_setting
    if any(override.partition("=")[0] == key for override in request.overrides):
        raise UserError(f"--keep_minibatch_size sets the minibatches: leave out {key}=…, or --keep_minibatch_size")
    own, own_num_envs = own_batch(request, adapter)
    size = minibatch_size(own_num_envs, own)
    value = kept_minibatches(num_envs, processes, batch, size)
    if value is None:
        raise UserError(
            f"--keep_minibatch_size: {cannot_keep(num_envs, processes, batch, size)}: use a multiple of the task's "
            f"{own_num_envs} environments, counted over all processes, or leave --keep_minibatch_size out"
        )
    write_setting(agent_cfg, key, value)
    return f"{key}={value}"


def own_batch(request: TrainRequest, adapter: Adapter) -> tuple[BatchPlan, int]:
    """Return the batch of the registered task and agent configuration, and its environments.

    Args:
        request: A request that names the task and the agent configuration.
        adapter: The library.
    """
    env_cfg, agent_cfg = resolve_configs(request.task, adapter.library, [], request.agent)
    agent_cfg = adapter.prepare(agent_cfg, "cpu")
    require_values(agent_cfg, adapter)
    return plan_batch(adapter, agent_cfg), env_cfg.scene.num_envs


def scaled_learning_rate(learning_rate: float, batch: int, reference: int, rule: LearningRateRule = "sqrt") -> float:
    """Scale a learning rate to the batch: by √2 per doubling (Krizhevsky 2014, arXiv:1404.5997), or linearly.

    By the square root, a gradient step keeps its variance when gradients are averaged over more samples. Linearly, one
    step goes as far as several steps with smaller batches (Goyal et al. 2017, arXiv:1706.02677).

    Args:
        learning_rate: Learning rate for the reference batch.
        batch: Effective batch: samples that the gradient steps of one iteration see.
        reference: The effective batch that the learning rate was chosen for.
        rule: How the learning rate grows.

    Returns:
        The learning rate for the batch, to four digits.
    """
    growth = batch / reference
    return float(f"{learning_rate * (growth if rule == 'linear' else math.sqrt(growth)):.4g}")
