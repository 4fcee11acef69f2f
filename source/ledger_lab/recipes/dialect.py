"""How a library says what a recipe says: its own names, what it can't say, and where it means something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ledger_lab.errors import UserError
from ledger_lab.recipes.ppo import PpoRecipe


@dataclass(frozen=True)
class Setting:
    """Where a library keeps what a field of a recipe says."""

    override: str
    """Override of the command line, like ``agent.algorithm.gamma``."""
    note: str = ""
    """How the value is written there, if not as it stands in the recipe."""


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
    """What it does in its own way, in words, by the field or the matter."""

    @property
    def overrides(self) -> dict[str, str]:
        """Overrides of the command line by the fields of the recipe."""
        return {field: setting.override for field, setting in self.settings.items()}

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
