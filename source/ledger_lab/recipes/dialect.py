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
    """Further overrides of the same kind: that of the value function, or an older name."""
    rule: Rule | None = None
    """Values that the library accepts, if they differ from those of the recipe."""


@dataclass(frozen=True)
class Only:
    """The one value of a field that a library can train with."""

    value: object
    reason: str
    """The reason and what to do, as the end of a sentence."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How one library expresses a recipe: each field except ``num_envs`` is in ``settings`` or ``only``."""

    library: str
    """Name on the command line."""
    title: str
    """Name in prose."""
    settings: Mapping[str, Setting]
    """The setting that holds each field of a recipe."""
    only: Mapping[str, Only]
    """Fields for which the library accepts a single value; they may have a setting, too."""
    differences: Mapping[str, str]
    """Differences of the library in words, by field or topic."""
    adaptive: str = "adaptive"
    """The library's name of the learning-rate schedule that follows the KL divergence."""

    @property
    def overrides(self) -> dict[str, str]:
        """Overrides of the command line by the fields of the recipe."""
        return {field: setting.override for field, setting in self.settings.items()}

    @property
    def rules(self) -> dict[str, tuple[str, Rule]]:
        """Recipe field and rule of each override whose values are restricted."""
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
            UserError: If the library does not support a value of the recipe; names the field, the supported value and
                the reason.
        """
        for field, only in self.only.items():
            asked = getattr(recipe, field)
            if asked != only.value:
                raise UserError(
                    f"recipe {recipe.experiment_name!r}: {self.title} trains with {field}={only.value!r} only, not "
                    f"{asked!r}: {only.reason}"
                )
