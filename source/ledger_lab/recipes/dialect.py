"""How a library expresses a recipe: its setting names, what it can't express, and where its meaning differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ledger_lab.errors import UserError
from ledger_lab.recipes.ppo import RULES, PpoRecipe
from ledger_lab.recipes.rules import Rule


@dataclass(frozen=True)
class Setting:
    """The setting of a library that holds a field of a recipe."""

    override: str
    """Override of the command line, like ``agent.algorithm.gamma``."""
    note: str = ""
    """How the library writes the value, in words; empty if it is written as in the recipe."""
    also: tuple[str, ...] = ()
    """Overrides of the same kind beside it: the value function's, where there are two, or an older name."""
    rule: Rule | None = None
    """What the library takes there, if not the recipe's own values."""


@dataclass(frozen=True)
class Only:
    """The one value of a field that a library can train with."""

    value: object
    reason: str
    """Why, and the way out, as the end of a sentence."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One library's side of the translation. Every field of a recipe but ``num_envs`` is in one of the first two."""

    library: str
    """Name on the command line."""
    title: str
    """Name in prose."""
    settings: Mapping[str, Setting]
    """Where it keeps each field of a recipe."""
    only: Mapping[str, Only]
    """Fields that it takes one value of; they may have a setting, too."""
    differences: Mapping[str, str]
    """Differences of the library in words, by field or topic."""
    adaptive: str = "adaptive"
    """What it calls the schedule of the learning rate that holds a KL divergence."""

    @property
    def overrides(self) -> dict[str, str]:
        """Overrides of the command line by the fields of the recipe."""
        return {field: setting.override for field, setting in self.settings.items()}

    @property
    def rules(self) -> dict[str, tuple[str, Rule]]:
        """What the library takes, with the field of the recipe, by all overrides whose values are bound to a rule."""
        return {
            override: (field, rule)
            for field, setting in self.settings.items()
            if (rule := setting.rule or RULES.get(field)) is not None
            for override in (setting.override, *setting.also)
        }

    def require(self, recipe: PpoRecipe) -> None:
        """Refuse a recipe that the library can't follow.

        Args:
            recipe: The recipe.

        Raises:
            UserError: If it asks for what the library can't do; names the field, the value that works, and why.
        """
        for field, only in self.only.items():
            asked = getattr(recipe, field)
            if asked != only.value:
                raise UserError(
                    f"recipe {recipe.experiment_name!r}: {self.title} trains with {field}={only.value!r} only, not "
                    f"{asked!r}: {only.reason}"
                )
