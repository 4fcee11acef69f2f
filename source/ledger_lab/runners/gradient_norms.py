"""Hearing of the gradients' norms, which libraries compute to clip them, and do not log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def recorded_gradient_norms(module: Any = torch.nn.utils) -> Iterator[list[torch.Tensor]]:  # noqa: ANN401 - a module
    """Keep the norm that every gradient has before torch clips it.

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
