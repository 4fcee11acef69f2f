"""Records gradient norms, which libraries compute for clipping but do not log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def recorded_gradient_norms(module: Any = torch.nn.utils) -> Iterator[list[torch.Tensor]]:  # noqa: ANN401 - a module
    """Record every gradient norm before torch clips the gradient.

    In half precision, norms of steps that a gradient scaler skips are not finite: see :func:`largest_norm`.

    Args:
        module: Module in which the library looks up ``clip_grad_norm_``.

    Yields:
        The norms; the reader empties the list.
    """
    norms: list[torch.Tensor] = []
    clip = module.clip_grad_norm_

    def clip_grad_norm_(*args: Any, **kwargs: Any) -> torch.Tensor:
        norm = clip(*args, **kwargs)
        norms.append(norm.detach())
        return norm

    module.clip_grad_norm_ = clip_grad_norm_
    try:
        yield norms
    finally:
        module.clip_grad_norm_ = clip


def largest_norm(norms: list[torch.Tensor], scaler: torch.amp.GradScaler | None = None) -> torch.Tensor | None:
    """Return the largest recorded norm, and empty the list.

    Args:
        norms: The list that :func:`recorded_gradient_norms` yields.
        scaler: The library's gradient scaler. It tries larger and larger loss scales, and skips a step whose gradients
            exceed half precision; norms of skipped steps are left out.

    Returns:
        A scalar; ``None`` if no norm is left.
    """
    if not norms:
        return None
    found = torch.stack(norms)
    norms.clear()
    if scaler is not None and scaler.is_enabled():
        found = found[found.isfinite()]
    return found.max() if len(found) else None
