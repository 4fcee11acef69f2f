"""What LedgerLab adds to SKRL's SAC and TD3, as settings of the agent's configuration beside the library's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from ledger_lab.errors import UserError
from ledger_lab.runners.skrl.off_policy_dialect import CRITICS

if TYPE_CHECKING:
    from ledger_lab.recipes import Dialect


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

    @classmethod
    def of(cls, agent_cfg: Mapping[str, Any], dialect: Dialect) -> Self:
        """Read and check the settings. A missing one has the default of the recipe.

        Args:
            agent_cfg: The library's configuration.
            dialect: The library's settings of the algorithm.

        Raises:
            UserError: If a value is of the wrong kind, or does not fit the networks.
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
        if options.value_atoms > 1:
            for role in CRITICS:
                if (output := agent_cfg["models"][role].get("output")) != "ONE":
                    raise UserError(
                        f"agent.models.{role}.output {output!r}: {dialect.overrides['value_atoms']} "
                        f"{options.value_atoms} replaces the output layer of a critic: set it to 'ONE'"
                    )
        return options

    @property
    def change_updates(self) -> bool:
        """Whether gradient steps need more than the library's own agents compute."""
        return self.n_step > 1 or self.value_atoms > 1 or self.reward_normalization or self.prioritized_sampling
