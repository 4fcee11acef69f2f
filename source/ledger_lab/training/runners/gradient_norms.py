"""Norms of gradients before and after the processes of a training average them.

Their difference is the noise of the gradient (:mod:`ledger_lab.reports.gradient_noise`). The libraries clip only
the average, so clipping changes neither norm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ledger_lab.training.runners.recorded_calls import replaced

_LARGEST = 1e30
"""Largest squared norm that counts. With mixed precision, a library skips steps whose gradients overflow."""


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
