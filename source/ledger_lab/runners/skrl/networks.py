"""Layers that SKRL's descriptions of networks do not have."""

from __future__ import annotations

import torch
from torch.nn import LayerNorm, Linear, Sequential


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
