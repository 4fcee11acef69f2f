"""Meters the libraries' collectives and the gradients in them, and merges statistics of all processes.

The difference of a gradient's norms before and after the processes average it is the noise of the gradient
(:mod:`ledger_lab.reports.ranks`). The libraries clip only the average, so clipping changes neither norm.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
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
_LARGEST = 1e30
"""Largest squared norm that counts. With mixed precision, a library skips steps whose gradients overflow."""


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


@dataclass(frozen=True, kw_only=True)
class NormSums:
    """Sums over gradient steps."""

    steps: int = 0
    own: float = 0.0
    """Sum of the squared norms of this process's gradients."""
    average: float = 0.0
    """Sum of the squared norms of the average gradients."""

    def __add__(self, other: NormSums) -> NormSums:
        """Add further steps."""
        return NormSums(steps=self.steps + other.steps, own=self.own + other.own, average=self.average + other.average)


class GradientNorms:
    """Measures the gradients of a training in several processes.

    It adds two norms to each collective that averages gradients, and no collective. The norms stay on the device until
    :meth:`take` reads them.
    """

    def __init__(self, averaging: GradientAveraging) -> None:
        """Measure nothing yet.

        Args:
            averaging: Where gradients are averaged.
        """
        self._averaging = averaging
        self._averages = False
        """Whether the library averages gradients at the moment: it has other collectives, too."""
        self._steps = 0
        self._step_of: list[int] = []
        """Index of the gradient step of each tensor."""
        self._own: list[torch.Tensor] = []
        """Norm of each tensor before the collective."""
        self._sum: list[torch.Tensor] = []
        """Norm of each tensor after it, when it holds the sum over all processes."""

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure all gradients that are averaged inside the context."""
        with ExitStack() as stack:
            stack.enter_context(replaced(dist, all_reduce=self._observed(dist.all_reduce)))
            for place, (owner, name) in enumerate(self._averaging.calls):
                stack.enter_context(replaced(owner, **{name: self._averaged(getattr(owner, name), first=not place)}))
            yield

    def take(self) -> NormSums:
        """Return the sums over the steps since the last call. Call it between two steps; it waits for the device."""
        if not self._own:
            return NormSums()
        norms = torch.stack([*self._own, *self._sum]).double().cpu().reshape(2, -1)
        squares = torch.zeros(2, self._steps, dtype=torch.float64)
        own, average = squares.index_add_(1, torch.tensor(self._step_of), norms.square())
        average /= dist.get_world_size() ** 2
        counts = (own <= _LARGEST) & (average <= _LARGEST)  # false for NaN
        for kept in (self._step_of, self._own, self._sum):
            kept.clear()
        self._steps = 0
        return NormSums(steps=int(counts.sum()), own=float(own[counts].sum()), average=float(average[counts].sum()))

    def _observed(self, all_reduce: Callable[..., Any]) -> Callable[..., Any]:
        """Return the collective with a norm before and after it."""

        def call(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
            if not self._averages:
                return all_reduce(tensor, *args, **kwargs)
            own = self._norm(tensor)
            result = all_reduce(tensor, *args, **kwargs)
            self._step_of.append(self._steps - 1)
            self._own.append(own)
            self._sum.append(self._norm(tensor))
            return result

        return call

    def _averaged(self, average: Callable[..., Any], *, first: bool) -> Callable[..., Any]:
        """Return a callable that averages gradients, whose collectives are observed."""

        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
            self._steps += first
            self._averages = True
            try:
                return average(*args, **kwargs)
            finally:
                self._averages = False

        return call

    def _norm(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return the norm of a gradient without its scale, and without waiting for the device."""
        norm, scaler = torch.linalg.vector_norm(gradient), self._averaging.scaler
        if scaler is None or not scaler.is_enabled():
            return norm
        return norm / scaler.scale(torch.ones_like(norm))
