"""Bounded policies, made of networks of SKRL.

The outputs of SKRL's own policies are unbounded. Clipping them at the bound would leave no gradient beyond it, and
would give a Gaussian the wrong probabilities. Here, tanh squashes them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch.nn.functional import softplus

LOG_STD = (-5.0, 2.0)
"""Smallest and largest logarithm of the standard deviation before squashing."""


class SquashedPolicy(ABC):
    """Functions that replace those of a model of SKRL. Its parameters stay where they are."""

    def __init__(
        self,
        model: Any,  # noqa: ANN401 - the library generates its class
        bound: float,
        stream: torch.Generator | None = None,
    ) -> None:
        """Replace the functions with which the library's agent acts.

        Args:
            model: The library's model.
            bound: Largest absolute value of an action.
            stream: Random stream of a stochastic policy; ``None`` for that of the process.
        """
        self._model, self._bound, self._stream = model, bound, stream
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
        raw = mean + gaussian.stddev * torch.empty_like(mean).normal_(generator=self._stream)
        # log(1 - tanh²(x)), without loss of precision where tanh is close to ±1
        narrowing = 2.0 * (math.log(2.0) - raw - softplus(-2.0 * raw))
        log_prob = (gaussian.log_prob(raw) - narrowing).sum(dim=-1, keepdim=True)
        self._log_prob = log_prob.detach()
        return self._bound * torch.tanh(raw), {"log_prob": log_prob, "mean_actions": squashed(mean, self._bound)}

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
