"""What libraries do between processes: metered, and put right where one knows its own process alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from ledger_lab.errors import first_line
from ledger_lab.ledger.endings import CollectiveError
from ledger_lab.meters import Phase, PhaseClock

_COLLECTIVES = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "reduce",
    "reduce_scatter_tensor",
)
"""What libraries call by these names on ``torch.distributed``."""


@contextmanager
def metered_collectives(clock: PhaseClock) -> Iterator[None]:
    """Count the collectives of the training loop for the phase ``synchronize``, whichever library makes them.

    Before and after it, waiting for other processes is a part of starting up, or of judging. What a collective raises
    is a :class:`~ledger_lab.ledger.endings.CollectiveError` meanwhile.

    Args:
        clock: The clock.
    """
    originals = {name: getattr(dist, name) for name in _COLLECTIVES}
    for name, original in originals.items():
        setattr(dist, name, _metered(name, original, clock))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(dist, name, original)


def _metered(name: str, collective: Callable[..., Any], clock: PhaseClock) -> Callable[..., Any]:
    """Return a collective whose time is counted, and whose errors say that they are one's."""

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
    """Return mean and variance of the samples of all processes, each of which has as many.

    For libraries whose normalizers know only their own process.

    Args:
        mean: Mean of this process's samples.
        variance: Their variance.
        count: How many they are.
        correction: What is subtracted from a count before a variance is divided by it: 1 for an unbiased one, else 0.

    Returns:
        The same of all samples, as if they had been one batch.
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


def take_from_first(module: torch.nn.Module) -> None:
    """Give the parameters and buffers of the first process to all.

    Args:
        module: The same module on all of them.
    """
    if dist.is_initialized():
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, src=0)


def of_all_processes(
    learn: Callable[[torch.Tensor, torch.Tensor, int], None],
) -> Callable[[torch.Tensor, torch.Tensor, int], None]:
    """Return what a normalizer learns by, so that it learns from the samples of all processes.

    Args:
        learn: Takes mean, unbiased variance and count of samples.
    """
    return lambda mean, variance, count: learn(*merged_moments(mean, variance, count, correction=1))
