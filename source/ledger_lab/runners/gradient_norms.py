"""Hearing of the gradients' norms, which libraries compute to clip them, and do not log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def recorded_gradient_norms(module: Any = torch.nn.utils) -> Iterator[list[torch.Tensor]]:  # noqa: ANN401 - a module
    """Keep the norm that every gradient has before torch clips it.

    In half precision, those of steps that a gradient scaler leaves out are not finite: see :func:`largest_norm`.

    Args:
        module: Where the library looks ``clip_grad_norm_`` up.

    Yields:
        The norms, to be emptied by whoever reads them.
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
    """Return the largest of recorded norms, and forget them.

    Args:
        norms: What :func:`recorded_gradient_norms` yields.
        scaler: The library's gradient scaler. It tries how far losses can be scaled up: a step whose gradients exceed
            half precision is not taken, and tells nothing of the training.

    Returns:
        A scalar; ``None`` if there is none.
    """
    if not norms:
        return None
    found = torch.stack(norms)
    norms.clear()
    if scaler is not None and scaler.is_enabled():
        found = found[found.isfinite()]
    return found.max() if len(found) else None
