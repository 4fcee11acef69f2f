"""What SKRL's networks lack for SAC and TD3: bounded policies, normalized layers, and a check of their shapes.

The outputs of SKRL's own policies are unbounded. Clipping them at the bound would leave no gradient beyond it, and
would give a Gaussian the wrong probabilities. Here, tanh squashes them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import torch
from torch.nn import LayerNorm, Linear, Sequential
from torch.nn.functional import softplus

from ledger_lab.errors import UserError, first_line
from ledger_lab.ledger import Status
from ledger_lab.ledger.endings import is_device_fault, status_of

LOG_STD = (-5.0, 2.0)
"""Smallest and largest logarithm of the standard deviation before squashing."""

_MISFITS = (AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError)
"""Errors of networks that read other observations than the task has."""

_WAY_OUT = "describe networks for these observations; those of images begin with layers like conv2d and flatten"


class SquashedPolicy(ABC):
    """Functions that replace those of a model of SKRL. Its parameters stay where they are."""

    def __init__(self, model: Any, bound: float) -> None:  # noqa: ANN401 - the library generates its class
        """Replace the functions with which the library's agent acts.

        Args:
            model: The library's model.
            bound: Largest absolute value of an action.
        """
        self._model, self._bound = model, bound
        model.act, model.random_act = self.act, self.random_act

    @abstractmethod
    def act(self, inputs: dict[str, Any], *, role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return actions of shape (n, actions), and further outputs that the library's agent needs.

        Args:
            inputs: Inputs of the network, of shape (n, ...).
            role: Role of the model.
        """

    def random_act(self, inputs: dict[str, Any], *, role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Draw actions uniformly within the bound."""
        like = inputs["observations"]
        shares = torch.rand(len(like), self._model.num_actions, device=like.device)
        return self._bound * (2.0 * shares - 1.0), {}


class SquashedGaussian(SquashedPolicy):
    """The stochastic policy of SAC, a squashed Gaussian (Haarnoja et al. 2018, arXiv:1812.05905, appendix C)."""

    def act(self, inputs: dict[str, Any], *, role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Sample actions.

        Args:
            inputs: Inputs of the network, of shape (n, ...).
            role: Role of the model.

        Returns:
            Actions of shape (n, actions), and ``log_prob``, the logarithm of the density of the actions as shares of
            the bound, of shape (n, 1).
        """
        mean, outputs = self._model.compute(inputs, role)
        gaussian = torch.distributions.Normal(mean, outputs["log_std"].clamp(*LOG_STD).exp())
        raw = gaussian.rsample()
        # log(1 - tanh²(x)), without loss of precision where tanh is close to ±1
        narrowing = 2.0 * (math.log(2.0) - raw - softplus(-2.0 * raw))
        log_prob = (gaussian.log_prob(raw) - narrowing).sum(dim=-1, keepdim=True)
        self._log_prob = log_prob.detach()
        return squashed(raw, self._bound), {"log_prob": log_prob, "mean_actions": squashed(mean, self._bound)}

    def std(self) -> float:
        """Return the mean standard deviation of the actions before they are squashed, as shares of the bound."""
        return float(self._model.log_std_parameter.detach().clamp(*LOG_STD).exp().mean())

    def entropy_of_last(self) -> float:
        """Return the entropy of the last sampled actions, as shares of the bound [nat], estimated from the samples."""
        return -float(self._log_prob.mean())


class SquashedDeterministic(SquashedPolicy):
    """The deterministic policy of TD3 (Fujimoto et al. 2018, arXiv:1802.09477)."""

    def act(self, inputs: dict[str, Any], *, role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the policy's actions, in full precision also if the network computes in half precision."""
        raw, outputs = self._model.compute(inputs, role)
        return squashed(raw.float(), self._bound), outputs


def squashed(raw: torch.Tensor, bound: torch.Tensor | float) -> torch.Tensor:
    """Return the deterministic actions of a squashed policy.

    Args:
        raw: Output of its network.
        bound: Largest absolute value of an action.
    """
    return bound * torch.tanh(raw)


def normalize_layers(model: torch.nn.Module) -> None:
    """Let a model normalize what each hidden layer passes to its activation. Its weights stay as they were drawn.

    Args:
        model: A model of the library, whose last linear layer gives its output.
    """
    *_, last = (module for module in model.modules() if isinstance(module, Linear))
    for name, network in model.named_children():
        if isinstance(network, Sequential):
            layers: list[torch.nn.Module] = []
            for layer in network:
                layers.append(layer)
                if isinstance(layer, Linear) and layer is not last:
                    layers.append(LayerNorm(layer.out_features, device=layer.weight.device))
            setattr(model, name, Sequential(*layers))


@contextmanager
def fitting_networks(wrapper: Any) -> Iterator[None]:  # noqa: ANN401 - the library's own type
    """Turn an error of networks that do not fit the observations into one line.

    Args:
        wrapper: The library's view of the environment.

    Raises:
        UserError: If networks that are built within can't read the observations.
    """
    try:
        yield
    except _MISFITS as error:
        if is_device_fault(str(error)) or status_of(error) is Status.OUT_OF_MEMORY:
            raise
        shapes = [str(_shape(space)) for space in (wrapper.observation_space, wrapper.state_space) if space is not None]
        raise UserError(
            f"agent.models: the networks can't read observations of shape {' and '.join(shapes)} "
            f"({first_line(error)}): {_WAY_OUT}"
        ) from error


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
            f"shape {tuple(given.shape)} instead of (2, {outputs}): {_WAY_OUT}"
        )


def _shape(space: gym.Space) -> Any:  # noqa: ANN401 - a tuple, or nested dictionaries of them
    """Return the shape of a space, or the shapes of what it contains by their names."""
    return {name: _shape(each) for name, each in space.items()} if isinstance(space, gym.spaces.Dict) else space.shape
