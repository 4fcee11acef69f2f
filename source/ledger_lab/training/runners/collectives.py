"""Meters the libraries' collectives, and merges statistics of all processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ledger_lab.errors import first_line
from ledger_lab.ledger.endings import CollectiveError
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.training.runners.recorded_calls import replaced

_COLLECTIVES = (
    *("all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "barrier", "broadcast"),
    *("broadcast_object_list", "gather", "reduce", "reduce_scatter_tensor"),
)
"""Collectives that libraries call on ``torch.distributed``."""


@contextmanager
def metered_collectives(clock: PhaseClock) -> Iterator[None]:
    """Count the time of the training loop's collectives, in any library, for the phase ``synchronize``.

    Outside the loop, waiting for other processes counts as start-up or scoring. Inside the context, an error of a
    collective becomes a :class:`~ledger_lab.ledger.endings.CollectiveError`.

    Args:
        clock: The clock.
    """
    with replaced(dist, **{name: _metered(name, getattr(dist, name), clock) for name in _COLLECTIVES}):
        yield


def _metered(name: str, collective: Callable[..., Any], clock: PhaseClock) -> Callable[..., Any]:
    """Return a collective whose time is counted, and whose errors become a ``CollectiveError``."""

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through what the collective takes
        clock.open(Phase.SYNCHRONIZE if clock.base is Phase.UNATTRIBUTED else clock.base)
        try:
            return collective(*args, **kwargs)
        except RuntimeError as error:
            raise CollectiveError(f"{name}: {first_line(error)}") from error
        finally:
            clock.close()

    return call


def merged_moments(
    mean: torch.Tensor, variance: torch.Tensor, count: int, *, correction: int
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return mean and variance of the samples of all processes, which have equally many.

    For libraries whose normalizers use only the samples of their own process.

    Args:
        mean: Mean of this process's samples.
        variance: Variance of these samples.
        count: Number of these samples.
        correction: Subtracted from the count that the variance is divided by: 1 for an unbiased variance, else 0.

    Returns:
        Mean and variance of all samples, as if they had been one batch.
    """
    if not dist.is_initialized():
        return mean, variance, count
    total = count * dist.get_world_size()
    own, center = mean.double(), mean.double() * count
    dist.all_reduce(center)
    center /= total
    squares = variance.double() * (count - correction) + (own - center).square() * count
    dist.all_reduce(squares)
    return center.to(mean.dtype), (squares / (total - correction)).to(variance.dtype), total


def processes_here() -> int:
    """Return how many processes of the training run on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if dist.is_initialized() else 1


def largest_of_all_processes(values: torch.Tensor) -> torch.Tensor:
    """Return the largest values of all processes, element by element.

    Args:
        values: Values of this process, of the same shape in all.
    """
    if not dist.is_initialized():
        return values
    largest = values.clone()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return largest


def average_gradient(parameter: torch.Tensor) -> None:
    """Replace the gradient of a parameter by its average over all processes.

    For parameters that a library does not average over processes.

    Args:
        parameter: The parameter, with a gradient in all processes.
    """
    if dist.is_initialized():
        assert parameter.grad is not None
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def take_from_first(module: torch.nn.Module) -> None:
    """Copy parameters and buffers from the first process to all others.

    Args:
        module: The same module in all processes.
    """
    if dist.is_initialized():
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, src=0)


def of_all_processes(
    learn: Callable[[torch.Tensor, torch.Tensor, int], None],
) -> Callable[[torch.Tensor, torch.Tensor, int], None]:
    """Wrap a normalizer's update, so that it uses the samples of all processes.

    Args:
        learn: The update; takes mean, unbiased variance and count of samples.
    """
    return lambda mean, variance, count: learn(*merged_moments(mean, variance, count, correction=1))


@dataclass(frozen=True, kw_only=True)
class GradientAveraging:
    """Where the loop of a library averages the gradients of all processes."""

    calls: Sequence[tuple[object, str]]
    """Callables, by owner and name, that together average the gradient of one step, each called once per step."""
    scaler: torch.amp.GradScaler | None = None
    """The library's gradient scaler; the gradients are still scaled when they are averaged."""
