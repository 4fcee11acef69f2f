"""Layers, and a view of observations, that SKRL's descriptions of networks do not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import LayerNorm, Linear, Sequential

_SYMLOG = "observation_symlog"
"""Mark among the weights of a network that sees symmetric logarithms."""

_OBSERVED = ("observations", "states")
"""Inputs of the library's networks that are observations; the other one is actions."""


def extend(model: torch.nn.Module, *, layer_norm: bool = False, outputs: int = 1) -> None:
    """Change the layers of a model in place. Its other weights stay as they were drawn.

    Args:
        model: A model of the library, whose last linear layer gives its output.
        layer_norm: Whether to normalize what each hidden layer passes to its activation.
        outputs: Numbers that the model gives; 1 to keep its output layer.
    """
    if not layer_norm and outputs == 1:
        return
    *_, last = (module for module in model.modules() if isinstance(module, Linear))
    for name, network in model.named_children():
        if not isinstance(network, Sequential):
            continue
        layers: list[torch.nn.Module] = []
        for layer in network:
            if layer is last and outputs > 1:
                layers.append(Linear(last.in_features, outputs, device=last.weight.device))
            else:
                layers.append(layer)
            if layer_norm and isinstance(layer, Linear) and layer is not last:
                layers.append(LayerNorm(layer.out_features, device=layer.weight.device))
        setattr(model, name, Sequential(*layers))


def see_symlog(model: Any) -> None:  # noqa: ANN401 - the library generates its class
    """Let a model see the symmetric logarithms of observations; actions stay as they are.

    A mark among its weights keeps them out of networks that see plain observations, and the other way round.

    Args:
        model: A model of the library.
    """
    model.register_buffer(_SYMLOG, torch.tensor(True, device=next(model.parameters()).device))
    model.compute = _OfSymlog(model.compute)


class _OfSymlog:
    """Replaces the function with which a model of the library computes its output."""

    def __init__(self, compute: Callable[..., Any]) -> None:
        """Remember the model's own function."""
        self._compute = compute

    def __call__(self, inputs: Mapping[str, torch.Tensor | None], role: str = "") -> Any:  # noqa: ANN401 - passes through
        """Return the model's output for the symmetric logarithms of observations."""
        seen = {
            name: symlog(value) if name in _OBSERVED and value is not None else value for name, value in inputs.items()
        }
        return self._compute(seen, role)


def symlog(values: torch.Tensor) -> torch.Tensor:
    """Return symmetric logarithms: sign(x) · ln(1 + abs(x)) (Hafner et al. 2023, arXiv:2301.04104).

    Args:
        values: Any shape.
    """
    return values.sign() * values.abs().log1p()
