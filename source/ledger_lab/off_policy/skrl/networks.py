"""What SKRL's descriptions of networks do not have: further layers, a view of observations, and a check of shapes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from torch.nn import LayerNorm, Linear, Sequential

from ledger_lab.errors import UserError, first_line
from ledger_lab.ledger import Status
from ledger_lab.ledger.endings import is_device_fault, status_of

_SYMLOG = "observation_symlog"
"""Mark among the weights of a network that sees symmetric logarithms."""

_OBSERVED = ("observations", "states")
"""Inputs of the library's networks that are observations; the other one is actions."""

_MISFITS = (AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError)
"""Errors of networks that read other observations than the task has."""

_PACKAGE = Path(__file__).parents[2]
"""LedgerLab's code."""


@contextmanager
def fitting_networks(wrapper: Any) -> Iterator[None]:  # noqa: ANN401 - the library's own type
    """Turn an error of networks that do not fit the observations into one line; errors of LedgerLab's own code pass.

    Args:
        wrapper: The library's view of the environment.

    Raises:
        UserError: If networks that are built within can't read the observations.
    """
    try:
        yield
    except _MISFITS as error:
        if is_device_fault(str(error)) or status_of(error) is Status.OUT_OF_MEMORY or _raised_here(error):
            raise
        spaces = [space for space in (wrapper.observation_space, wrapper.state_space) if space is not None]
        shapes = " and ".join(str(_shape(space)) for space in spaces)
        raise UserError(
            f"agent.models: the networks can't read observations of shape {shapes} "
            f"({first_line(error)}): {_way_out(*spaces)}"
        ) from error


def _raised_here(error: Exception) -> bool:
    """Tell whether an error was raised by a line of LedgerLab."""
    *_, last = traceback.walk_tb(error.__traceback__)
    return Path(last[0].f_code.co_filename).is_relative_to(_PACKAGE)


def _way_out(*spaces: gym.Space) -> str:
    """Return what to do about networks that can't read some observations."""
    images = any(_has_images(_shape(space)) for space in spaces)
    return "describe networks for these observations" + (
        "; those of images begin with layers like conv2d and flatten" if images else ""
    )


def require_outputs(model: Any, role: str, outputs: int) -> None:  # noqa: ANN401 - the library generates its class
    """Refuse a network that gives its values in another shape, such as one for each row of an image.

    Args:
        model: A model of the library.
        role: Its role.
        outputs: Numbers that it must give for each observation.

    Raises:
        UserError: If it gives another shape.
    """
    sizes = {"observations": model.num_observations, "states": model.num_states, "taken_actions": model.num_actions}
    inputs = {name: torch.zeros(2, size, device=model.device) if size else None for name, size in sizes.items()}
    with torch.no_grad():
        given, _ = model.compute(inputs, role)
    if given.shape != (2, outputs):
        raise UserError(
            f"agent.models.{role}: for 2 observations of shape {_shape(model.observation_space)}, it gives numbers of "
            f"shape {tuple(given.shape)} instead of (2, {outputs}): {_way_out(model.observation_space)}"
        )


def _shape(space: gym.Space) -> Any:  # noqa: ANN401 - a tuple, or nested dictionaries of them
    """Return the shape of a space, or the shapes of what it contains by their names."""
    return {name: _shape(each) for name, each in space.items()} if isinstance(space, gym.spaces.Dict) else space.shape


def _has_images(shape: Any) -> bool:  # noqa: ANN401 - see above
    """Tell whether a shape is that of an image, or contains one."""
    return any(map(_has_images, shape.values())) if isinstance(shape, dict) else len(shape) > 1


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
