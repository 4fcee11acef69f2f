"""A scored policy: a function from observations to actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


type Policy = Callable[[Mapping[str, torch.Tensor]], torch.Tensor]
"""Deterministic actions of shape (n, actions) for observation groups of shape (n, ...)."""
