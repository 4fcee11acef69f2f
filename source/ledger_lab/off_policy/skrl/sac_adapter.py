"""Soft actor-critic of SKRL.

Besides what :mod:`ledger_lab.off_policy.skrl.off_policy_adapter` corrects, this module corrects the following behaviour
of the library: its checkpoints lack the entropy coefficient; it does not average the gradient of the entropy
coefficient over processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters import Phase
from ledger_lab.off_policy.skrl.off_policy_adapter import OffPolicyAdapter, OffPolicyTrainer
from ledger_lab.off_policy.skrl.sac_dialect import DIALECT
from ledger_lab.off_policy.skrl.squashed import LOG_STD, SquashedGaussian
from ledger_lab.tasks.recipes.rules import finite
from ledger_lab.training.runners.collectives import average_gradient

_UNUSED_LIMITS = ("clip_log_std", "max_log_std", "min_log_std")
"""Settings of the library's networks that a squashed policy does not use."""
_TEMPERATURE = "log_entropy_coefficient"
"""Part of a state that holds the logarithm of the entropy coefficient."""


class SacTrainer(OffPolicyTrainer):
    """SKRL's own training loop, with a squashed Gaussian policy."""

    dialect = DIALECT
    critics_per_loss = 1

    def _build(self) -> list[tuple[object, str, Phase]]:
        """Build agent and trainer, and bound the policy."""
        metered = super()._build()
        scaler = self._agent.scaler
        self._library["step"], scaler.step = scaler.step, self._step
        actions = self._agent.policy.num_actions
        if (target := self._agent_cfg.get("entropy_target")) is not None:
            self._agent._target_entropy = target * actions
        self.entropy_target = float(self._agent._target_entropy) / actions
        self._policy = SquashedGaussian(self._agent.policy, self._agent_cfg["action_bound"], self._stream)
        return metered

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state, and the entropy coefficient in it."""
        super().restore(state)
        agent = self._agent
        with torch.no_grad():
            agent.log_entropy_coefficient.copy_(state[_TEMPERATURE])
        if agent.entropy_optimizer.state:  # until the first update, the initial value counts, which is not rounded
            agent._entropy_coefficient = agent.log_entropy_coefficient.detach().exp()

    def state(self) -> dict[str, Any]:
        """Return the agent's own state, the entropy coefficient, and the completed iterations."""
        return {**super().state(), _TEMPERATURE: self._agent.log_entropy_coefficient.detach().clone()}

    def _step(self, optimizer: torch.optim.Optimizer) -> float | None:
        """Take a step of an optimizer; that of the entropy coefficient takes the average gradient of all processes."""
        if optimizer is self._agent.entropy_optimizer:
            average_gradient(self._agent.log_entropy_coefficient)
        result: float | None = self._library["step"](optimizer)
        return result

    def _read_figures(self) -> dict[str, float]:
        """Return the library's figures of an update, and those of the policy's distribution."""
        return super()._read_figures() | {"entropy": self._policy.entropy_of_last(), "action_std": self._policy.std()}


class SacAdapter(OffPolicyAdapter):
    """Soft actor-critic of SKRL (skrl 2, torch)."""

    dialect = DIALECT
    trainer_type = SacTrainer
    policy_class = "GaussianMixin"

    def prepare(
        self, agent_cfg: dict[str, Any], device: str, *, seed: int | None = None, max_iterations: int | None = None
    ) -> dict[str, Any]:
        """Set the requested values. The agent uses the device of the environment."""
        cfg = super().prepare(agent_cfg, device, seed=seed, max_iterations=max_iterations)
        if not cfg["agent"].get("learn_entropy", True):
            raise UserError("agent.agent.learn_entropy False: LedgerLab supports only a learned entropy coefficient")
        if (target := cfg["agent"].get("target_entropy")) is not None:
            raise UserError(
                f"agent.agent.target_entropy {target!r}: it is the entropy of all actions together: leave it out, and "
                f"set {DIALECT.overrides['entropy_target']}, the entropy per action"
            )
        return cfg

    def require_learnable(self, agent_cfg: dict[str, Any]) -> None:
        """Refuse networks that SAC does not have, and standard deviations that it would not learn."""
        super().require_learnable(agent_cfg)
        policy, (low, high) = agent_cfg["models"]["policy"], LOG_STD
        initial = policy.get("initial_log_std", 0.0)
        if finite(initial) or not low <= initial <= high:
            raise UserError(
                f"agent.models.policy.initial_log_std {initial!r}: must lie between {low:g} and {high:g}. LedgerLab "
                "keeps it within this range, and a value outside is never learned"
            )
        for name in (name for name in _UNUSED_LIMITS if name in policy):
            raise UserError(f"agent.models.policy.{name}: the limits are always {low:g} and {high:g}: leave it out")


ADAPTER = SacAdapter()
"""What :func:`ledger_lab.training.runners.adapter.load_adapter` returns."""
