"""The arithmetic of batches and minibatches: which numbers of environments work. It needs no library."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_lab.errors import UserError
from ledger_lab.training.runners import BatchPlan


@dataclass(frozen=True, kw_only=True)
class TaskBatch:
    """The batch of a training, and the task's own batch, which rules for larger batches refer to."""

    library: str
    """Name of the library on the command line."""
    plan: BatchPlan
    """The batch arithmetic of the training."""
    own: BatchPlan
    """The batch arithmetic of the registered agent configuration."""
    own_num_envs: int
    """Environments of the registered task."""


def cannot_split(num_envs: int, batch: BatchPlan) -> str | None:
    """Return why a batch does not split into equal minibatches, as a clause; ``None`` if it does.

    Args:
        num_envs: Environments per process.
        batch: The library's batch arithmetic.
    """
    if num_envs % batch.num_envs_step() == 0:
        return None
    return (
        f"a batch of {_steps(num_envs, batch)} does not split into {_parts(batch)}, which {batch.minibatch_setting} "
        "asks for"
    )


def check_batch(num_envs: int, batch: BatchPlan, *, by_flag: bool = True) -> None:
    """Check that a batch splits into equal minibatches.

    Args:
        num_envs: Environments per process.
        batch: The library's batch arithmetic.
        by_flag: Whether the user set the number of environments with ``--num_envs``; otherwise the task sets it.

    Raises:
        UserError: If the batch does not split; the message names numbers of environments that work.
    """
    wrong = cannot_split(num_envs, batch)
    if wrong is None:
        return
    step, setting = batch.num_envs_step(), batch.minibatch_setting
    below, above = num_envs // step * step, -(-num_envs // step) * step
    fitting = " or ".join(str(count) for count in (below, above) if count > 0)
    many = f"{fitting} environments (any multiple of {step})"
    if by_flag:
        raise UserError(f"--num_envs {num_envs}: {wrong}: use {many}")
    raise UserError(
        f"{setting} asks for {_parts(batch)}, and the task's batch of {_steps(num_envs, batch)} does not split into "
        f"them: change {setting}, or set env.scene.num_envs to {many}"
    )


def minibatch_size(num_envs: int, batch: BatchPlan) -> int:
    """Return the samples of a minibatch.

    Args:
        num_envs: Environments of all processes.
        batch: The library's batch arithmetic.
    """
    return num_envs * batch.horizon // batch.minibatches_of(num_envs)


def kept_minibatches(num_envs: int, processes: int, batch: BatchPlan, size: int) -> int | None:
    """Return what the setting of the minibatches must hold, so that a minibatch of all processes has a given size.

    Args:
        num_envs: Environments per process.
        processes: Processes of the training.
        batch: The library's batch arithmetic.
        size: Samples of a minibatch, over all processes.

    Returns:
        The value; ``None`` if no value gives minibatches of this size.
    """
    whole, samples = num_envs * processes * batch.horizon, num_envs * batch.horizon
    count = whole // size
    return batch.minibatch_value(count, samples) if count and whole % size == 0 and samples % count == 0 else None


def cannot_keep(num_envs: int, processes: int, batch: BatchPlan, size: int) -> str:
    """Return why the minibatches can't keep their size, as a clause; see :func:`kept_minibatches`."""
    return (
        f"a batch of {num_envs * processes} environments × {batch.horizon} steps does not split into minibatches of "
        f"{size} samples by {batch.minibatch_setting}"
    )


def _parts(batch: BatchPlan) -> str:
    """Return what a batch must split into, in words."""
    if batch.minibatches is not None:
        return f"{batch.minibatches} equal minibatches"
    return f"minibatches of {batch.minibatch_size}"


def _steps(num_envs: int, batch: BatchPlan) -> str:
    """Return the environment steps of one process's batch, in words."""
    return f"{num_envs} × {batch.horizon} = {num_envs * batch.horizon} steps"
