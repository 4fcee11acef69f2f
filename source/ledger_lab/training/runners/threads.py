"""Chooses the number of threads of torch on a CPU: several for large gradient steps and forward passes, else one.

Torch splits each operation among its threads, and waits for all of them after it. With the small networks of robots,
an operation takes microseconds, and the waiting costs more than the second thread saves. The number of threads follows
from sizes, and is not measured at the start: with another number of threads, sums may be rounded differently, and two
runs with the same command on machines with equally many cores must learn the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ledger_lab.ledger.meters.phases import Phase

WORK_PER_THREAD = 20_000_000
"""Rows × squared widths for each thread; ``benchmarks threads`` measures gradient steps."""


@dataclass(frozen=True, kw_only=True)
class Threads:
    """Threads of torch in one training process."""

    act: int
    """For the forward passes of the rollout."""
    learn: int
    """For returns, batches of a replay memory, and gradient steps."""

    def of(self, phase: Phase) -> int:
        """Return the threads of a phase."""
        if phase is Phase.INFER:
            return self.act
        return self.learn if phase in (Phase.RETURNS, Phase.REPLAY_SAMPLE, Phase.LEARN) else 1


def threads_for(
    available: int,
    hidden_dims: Sequence[int] | None,
    num_envs: int,
    minibatch: int,
    device: str,
) -> Threads:
    """Return the threads of a training.

    The weights are estimated by the squared widths of the hidden layers, because the numbers of observations are not
    known before the simulation starts.

    Args:
        available: Threads that torch may use in this process.
        hidden_dims: Widths of the hidden layers of a network; ``None`` if unknown, for all available threads.
        num_envs: Rows of a forward pass of the rollout.
        minibatch: Rows of a gradient step.
        device: Device of the networks; on a GPU, torch keeps all available threads.
    """
    act = learn = available
    if device == "cpu" and hidden_dims is not None:
        weights = sum(width**2 for width in hidden_dims)
        act, learn = (max(1, min(available, rows * weights // WORK_PER_THREAD)) for rows in (num_envs, minibatch))
    return Threads(act=act, learn=learn)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use a number of threads within the context. Changing it takes less than a microsecond."""
    import torch  # reports import the adapters' base class, and wait for no torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_threads[**P, R](function: Callable[P, R], count: int) -> Callable[P, R]:
    """Return a function that lets torch compute in a number of threads while it runs."""

    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through what the function takes
        with torch_threads(count):
            return function(*args, **kwargs)

    return counted
