"""TD3 of SKRL.

Besides what :mod:`ledger_lab.off_policy.skrl.off_policy_adapter` corrects, this module corrects the following behaviour
of the library: with noise, it stops with an error if the action space has no bounds; its noise does not follow the
bound of the actions; its checkpoints lack the count of updates, which decides when the policy is updated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters import Phase
from ledger_lab.off_policy.skrl.noise import ExplorationNoise
from ledger_lab.off_policy.skrl.off_policy_adapter import OffPolicyAdapter, OffPolicyTrainer
from ledger_lab.off_policy.skrl.squashed import SquashedDeterministic
from ledger_lab.off_policy.skrl.td3_dialect import DIALECT, NOISE, POLICIES
from ledger_lab.tasks.recipes.settings import read_setting
from ledger_lab.training.runners.skrl.adapter import config

_UPDATES = "updates"
"""Part of a state that holds the number of gradient steps of the critics."""


class Td3Trainer(OffPolicyTrainer):
    """SKRL's own training loop, with a squashed deterministic policy, and noise within the bound."""

    dialect = DIALECT
    critics_per_loss = 2

    def _build(self) -> list[tuple[object, str, Phase]]:
        """Build agent and trainer with LedgerLab's noise, and bound the policies."""
        cfg = self._agent_cfg
        bound, (low, high) = cfg["action_bound"], cfg["exploration_noise"]
        num_envs = self._env.unwrapped.num_envs
        noise = {
            "exploration_noise": ExplorationNoise,
            "exploration_noise_kwargs": {
                "low": low * bound,
                "high": high * bound,
                "num_envs": num_envs,
                "first": config.torch.rank * num_envs if config.torch.is_distributed else 0,
            },
            "smooth_regularization_noise": ExplorationNoise,
            "smooth_regularization_noise_kwargs": {
                "low": cfg["target_noise"] * bound,
                "high": cfg["target_noise"] * bound,
                "num_envs": 1,
            },
            "smooth_regularization_clip": cfg["target_noise_clip"] * bound,
        }
        self._agent_cfg = {**cfg, "agent": {**cfg["agent"], **noise}}
        metered = super()._build()
        agent = self._agent
        agent._min_actions, agent._max_actions = -bound, bound
        agent._smooth_regularization_noise.stream = self._stream
        for model in (agent.policy, agent.target_policy):
            SquashedDeterministic(model, bound)
        return metered

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state, and the count of updates in it."""
        super().restore(state)
        self._agent._update_counter = state[_UPDATES]

    def state(self) -> dict[str, Any]:
        """Return the agent's own state, the count of updates, and the completed iterations."""
        return {**super().state(), _UPDATES: self._agent._update_counter}


class Td3Adapter(OffPolicyAdapter):
    """TD3 of SKRL (skrl 2, torch)."""

    dialect = DIALECT
    trainer_type = Td3Trainer
    policy_class = "DeterministicMixin"
    policies = POLICIES

    def prepare(
        self, agent_cfg: dict[str, Any], device: str, *, seed: int | None = None, max_iterations: int | None = None
    ) -> dict[str, Any]:
        """Set the requested values. The agent uses the device of the environment."""
        agent = agent_cfg.get("agent")
        for name, value in agent.items() if isinstance(agent, Mapping) else ():
            if name.startswith(("exploration_", "smooth_regularization_")):
                settings = ", ".join(DIALECT.overrides[field] for field in NOISE)
                raise UserError(
                    f"agent.agent.{name} {value!r}: leave it out, and set {settings}, which are shares of "
                    f"{DIALECT.overrides['action_bound']}"
                )
        cfg = super().prepare(agent_cfg, device, seed=seed, max_iterations=max_iterations)
        for field in NOISE:
            override = DIALECT.overrides[field]
            if wrong := DIALECT.recipe.rules[field](value := read_setting(cfg, override)):
                raise UserError(f"{override} {value!r}: {wrong}")
        return cfg


ADAPTER = Td3Adapter()
"""What :func:`ledger_lab.training.runners.adapter.load_adapter` returns."""
