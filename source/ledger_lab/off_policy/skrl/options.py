"""What LedgerLab adds to SKRL's SAC and TD3, as settings of the agent's configuration beside the library's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from ledger_lab.errors import UserError
from ledger_lab.off_policy.skrl.off_policy_dialect import CRITICS, critic_roles

if TYPE_CHECKING:
    from ledger_lab.tasks.recipes import Dialect

_NORMALIZERS = ("observation_preprocessor", "state_preprocessor")
"""The library's settings that normalize what networks see."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Values of the settings, which have the names of the recipe's fields."""

    n_step: int
    critic_layer_norm: bool
    policy_layer_norm: bool
    value_atoms: int
    value_range: tuple[float, float]
    reward_normalization: bool
    prioritized_sampling: bool
    critics: int
    critics_in_target: int
    observation_symlog: bool
    replay_on_host: bool
    update_every: int

    @classmethod
    def of(cls, agent_cfg: Mapping[str, Any], dialect: Dialect) -> Self:
        """Read and check the settings. A missing one has the default of the recipe.

        Args:
            agent_cfg: The library's configuration.
            dialect: The library's settings of the algorithm.

        Raises:
            UserError: If a value is of the wrong kind, or does not fit another one or the networks.
        """
        values: dict[str, Any] = {}
        for name in (field.name for field in fields(cls)):
            value = agent_cfg.get(name, dialect.defaults[name])
            if (rule := dialect.recipe.rules.get(name)) is not None:
                wrong = rule(value)
            else:
                wrong = None if isinstance(value, bool) else "must be true or false"
            if wrong:
                raise UserError(f"{dialect.overrides[name]} {value!r}: {wrong}")
            values[name] = tuple(value) if isinstance(value, list) else value
        options = cls(**values)
        options._require_fit(agent_cfg, dialect.overrides)
        return options

    def _require_fit(self, agent_cfg: Mapping[str, Any], names: Mapping[str, str]) -> None:
        """Refuse values that do not fit one another, or the networks.

        Args:
            agent_cfg: The library's configuration.
            names: Overrides of the command line by the fields of the recipe.
        """
        if self.critics_in_target > self.critics:
            raise UserError(
                f"{names['critics_in_target']} {self.critics_in_target}: there are only {self.critics} critics: lower "
                f"it, or raise {names['critics']}"
            )
        for role in self.further_roles:
            if role in agent_cfg["models"]:
                raise UserError(
                    f"agent.models.{role}: {names['critics']} {self.critics} makes this network like that of the first "
                    "critic: leave it out"
                )
        if self.observation_symlog:
            for name in _NORMALIZERS:
                if (normalizer := agent_cfg["agent"].get(name)) is not None:
                    raise UserError(
                        f"{names['observation_symlog']} True: agent.agent.{name} {normalizer!r} already limits what "
                        f"the networks see: set it to null, or leave out {names['observation_symlog']}"
                    )
        if self.value_atoms > 1:
            for role in CRITICS:
                if (output := agent_cfg["models"][role].get("output")) != "ONE":
                    raise UserError(
                        f"agent.models.{role}.output {output!r}: {names['value_atoms']} {self.value_atoms} replaces "
                        "the output layer of a critic: set it to 'ONE'"
                    )

    @property
    def critic_roles(self) -> tuple[str, ...]:
        """Roles of the networks that estimate values: of all critics, then of their target networks."""
        return critic_roles(self.critics)

    @property
    def further_roles(self) -> tuple[str, ...]:
        """Those that the library's own agents do not have."""
        return tuple(role for role in self.critic_roles if role not in CRITICS)

    @property
    def change_updates(self) -> bool:
        """Whether gradient steps need more than the library's own agents compute."""
        return (
            self.n_step > 1
            or self.value_atoms > 1
            or self.reward_normalization
            or self.prioritized_sampling
            or self.critics > 2
            or self.critics_in_target < self.critics
        )
