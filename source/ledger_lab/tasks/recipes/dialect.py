"""How a library expresses a recipe: its setting names, what it can't express, and where its meaning differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any, ClassVar, Protocol

from ledger_lab.errors import UserError
from ledger_lab.tasks.recipes.ppo import PpoRecipe
from ledger_lab.tasks.recipes.settings import Rule, read_setting, write_setting


class Recipe(Protocol):
    """A recipe of any algorithm: a dataclass whose fields are hyperparameters. A dialect translates those of one."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    algorithm: ClassVar[str]
    """Name on the command line."""
    rules: ClassVar[Mapping[str, Rule]]
    """Rules for the values of fields; the other fields are free names and switches."""

    @property
    def experiment_name(self) -> str:
        """Folder of the runs below ``<log_root>/<library>/``."""

    @property
    def num_envs(self) -> int:
        """Environments that the recipe is tuned for."""


LEFT_OUT = object()
"""Returned by :attr:`Setting.write` if a recipe does not need the setting."""


@dataclass(frozen=True)
class Setting:
    """The setting of a library that holds a field of a recipe."""

    override: str
    """Override of the command line, like ``agent.algorithm.gamma``."""
    note: str = ""
    """How the library writes the value, in words; empty if it is written as in the recipe."""
    also: tuple[str, ...] = ()
    """Further overrides that get the same value, like that of the value function."""
    rule: Rule | None = None
    """Values that the library accepts, if they differ from those of the recipe."""
    write: Callable[[Any], Any] | None = None
    """Returns the value that the library's setting gets for a recipe; without it, the value of the recipe is taken."""
    unwritten: tuple[str, ...] = ()
    """Further overrides that the rule covers, and that a translation leaves out, like an older name."""
    optional: bool = False
    """Whether a translation leaves the setting out if the field has its default. So a configuration from before the
    setting was known is the same agent."""


@dataclass(frozen=True)
class Only:
    """The one value of a field that a library can train with."""

    value: object
    reason: str
    """The reason and what to do, as the end of a sentence."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How one library expresses a recipe: each field except ``num_envs`` is in ``settings`` or ``only``.

    A library has one dialect per algorithm that LedgerLab trains with it.
    """

    library: str
    """Name on the command line."""
    title: str
    """Name in prose."""
    seed: str
    """Override of the training seed."""
    settings: Mapping[str, Setting]
    """The setting that holds each field of a recipe."""
    only: Mapping[str, Only]
    """Fields for which the library accepts a single value; they may have a setting, too."""
    template: Callable[[Any], dict[str, Any]]
    """Returns the settings that no field of a recipe has; raises a ``UserError`` for combinations of values that the
    library can't follow."""
    adaptive: str = "adaptive"
    """The library's name of the learning-rate schedule that follows the KL divergence."""
    native: Callable[..., Any] | None = None
    """Returns a recipe as Isaac Lab's configuration class of the library, if there is one. May take keyword arguments
    for choices that no field of a recipe has."""
    recipe: type[Recipe] = PpoRecipe
    """Class of the recipes that it translates, which are for one algorithm."""
    one_process_reason: str | None = None
    """Why it trains in one process only, as the end of a sentence; ``None`` if it trains in several."""

    @property
    def algorithm(self) -> str:
        """Name of the algorithm on the command line."""
        return self.recipe.algorithm

    @property
    def learner(self) -> str:
        """Algorithm and library in prose, like ``SAC of SKRL``."""
        return f"{self.algorithm.upper()} of {self.title}"

    @property
    def overrides(self) -> dict[str, str]:
        """Overrides of the command line by the fields of the recipe."""
        return {field: setting.override for field, setting in self.settings.items()}

    @property
    def rules(self) -> dict[str, tuple[str, Rule]]:
        """Recipe field and rule of each override whose values are restricted."""
        return {
            override: (name, rule)
            for name, setting in self.settings.items()
            if (rule := setting.rule or self.recipe.rules.get(name)) is not None
            for override in (setting.override, *setting.also, *setting.unwritten)
        }

    @property
    def defaults(self) -> dict[str, Any]:
        """Defaults of the fields whose settings are optional."""
        known = {field.name: field.default for field in fields(self.recipe)}
        return {name: known[name] for name, setting in self.settings.items() if setting.optional}

    @property
    def optional(self) -> dict[str, Any]:
        """Values of the optional settings in a configuration without them, by their dotted paths."""
        values = {}
        for name, default in self.defaults.items():
            setting = self.settings[name]
            value = default if setting.write is None else setting.write(SimpleNamespace(**{name: default}))
            values[setting.override.removeprefix("agent.")] = list(value) if isinstance(value, tuple) else value
        return values

    def value_scale(self, agent_cfg: Any) -> float:
        """Return the factor between the returns of a training and the values that its learner estimates.

        Args:
            agent_cfg: The library's configuration.

        Returns:
            The scale of the rewards; 1 if the learner normalizes values.
        """
        known = {name: read_setting(agent_cfg, override) for name, override in self.overrides.items()}
        return 1.0 if known.get("value_normalization") else float(known.get("reward_scale") or 1.0)

    def config(self, recipe: Recipe, **choices: Any) -> Any:
        """Return a recipe as the configuration that Isaac Lab's own commands take, too.

        Args:
            recipe: The recipe.
            choices: Keyword arguments of :attr:`native`.

        Raises:
            UserError: If the library does not support the recipe.
        """
        return self.translate(recipe) if self.native is None else self.native(recipe, **choices)

    def translate(self, recipe: Recipe) -> dict[str, Any]:
        """Return a recipe as nested dictionaries with the library's settings.

        Args:
            recipe: The recipe.

        Raises:
            UserError: If the library does not support the recipe.
        """
        self.require(recipe)
        cfg = self.template(recipe)
        unneeded = {name for name, default in self.defaults.items() if getattr(recipe, name) == default}
        for field, setting in self.settings.items():
            if field in unneeded:
                continue
            value = getattr(recipe, field) if setting.write is None else setting.write(recipe)
            for override in (setting.override, *setting.also) if value is not LEFT_OUT else ():
                write_setting(cfg, override, list(value) if isinstance(value, tuple) else value)
        return cfg

    def require(self, recipe: Recipe) -> None:
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
