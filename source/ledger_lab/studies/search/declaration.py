"""Search files: what is searched, on which seeds, and for how much."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from ledger_lab.documents import read_toml
from ledger_lab.errors import UserError, nearest
from ledger_lab.names import names_a_folder
from ledger_lab.studies.declared.arguments import STUDY_FLAGS, check_arguments
from ledger_lab.studies.search.space import (
    LIBRARY,
    NUM_ENVS,
    Space,
    Value,
    Values,
    canonical,
    is_override,
    read_space,
    read_values,
)

type Objective = Literal["time", "cost"]
type Strategy = Literal["tpe", "random", "population"]

FEWEST_SEALED = 10
"""Smallest number of sealed seeds."""
_SEED_LIMIT = 2**32
"""``train.py`` accepts seeds below this number."""
_VERSION = 1
_REQUIRED = ("task", "search_seeds", "sealed_seeds", "space")
_KEYS = (
    *("version", "about", "arguments", "panel", "objective", "strategy", "budget_usd", "budget_h", "control_every"),
    *("stock", "population"),
    *_REQUIRED,
)
_FLAGS = (*STUDY_FLAGS, "--task", "--panel", "--recipe", "--limit_s", "--on")
"""Flags of ``train.py`` that a search sets itself."""
_POPULATION_KEYS = ("iterations", "replaced", "factors")
_CHANGEABLE = (
    *("learning_rate", "schedule", "kl_target", "epochs", "minibatches", "max_grad_norm", "clip", "value_clip"),
    *("value_coef", "entropy_coef", "discount", "gae_lambda", "timeout_bootstrap", "reward_scale"),
)
"""Fields of a recipe that a population can change during a training. The others belong to the networks, to their
normalizers, to the beginning of a training, or to the length of an iteration."""


@dataclass(frozen=True, kw_only=True)
class Population:
    """How the members of a population are trained, and replaced (Jaderberg et al. 2017, arXiv:1711.09846)."""

    iterations: int
    """Iterations that a member trains in each generation."""
    replaced: float = 0.25
    """Share of the members that are replaced after a generation, in (0, 0.5]; at least one member."""
    factors: tuple[float, ...] = (0.8, 1.25)
    """Factors by which the numbers of a copied member change; positive, and none of them 1."""


@dataclass(frozen=True, kw_only=True)
class SearchDeclaration:
    """What a search file declares. If anything but ``about`` changes, it is another search: the digest differs."""

    name: str
    """Name of the file, without its suffix."""
    about: str
    """What the search is about; the name, if the file does not say."""
    task: str
    arguments: tuple[str, ...]
    """Arguments of ``train.py`` in the file."""
    space: Space
    search_seeds: tuple[int, ...]
    """Training seeds of the race, in its order; in a population, that of each member."""
    sealed_seeds: tuple[int, ...]
    """Training seeds of the final comparison. No training of the race may use them."""
    stock: Values = field(default_factory=dict)
    """Where the stock recipe differs from the task's own. Each trial has these values, unless it has another one."""
    panel: str | None = None
    """Panel that all trainings are scored on; ``None`` for that of the task."""
    objective: Objective = "time"
    """What trials are compared by: their wall-clock time, or their cost, until the target is proven."""
    strategy: Strategy = "tpe"
    """Where new trials come from: ``tpe`` learns from earlier trials, ``random`` does not. With ``population``, a
    population is trained in place of the race, which finds a schedule of hyperparameters."""
    population: Population | None = None
    """The population; ``None`` for a race."""
    budget_usd: float | None = None
    """Most that the race may cost [USD]. Either this or :attr:`budget_h` is given."""
    budget_h: float | None = None
    """Most wall-clock time of all trainings of the race, added up [h]."""
    control_every: int = 8
    """After so many other trainings comes a control: the best trial so far repeats its first seed, which shows how the
    speed of the machine drifts."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that decides how the search goes: all but ``name`` and ``about``."""
        content = {name: value for name, value in vars(self).items() if name not in ("name", "about", "digest")}
        population = content.pop("population")
        if population is not None:  # races keep the digests that they had before there were populations
            content["population"] = vars(population)
        content["space"] = canonical(self.space)
        content["stock"] = dict(sorted(self.stock.items()))
        return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def common_arguments(self) -> list[str]:
        """Arguments of ``train.py`` that all new trainings have."""
        panel = [] if self.panel is None else ["--panel", self.panel]
        return [*self.arguments, "--task", self.task, *panel]

    def recipe(self, values: Values) -> Mapping[str, Value]:
        """Return everything that a trial sets: the values of ``[stock]``, and its own.

        Args:
            values: Values of the trial; empty for the stock recipe.
        """
        return {**self.stock, **values}

    @property
    def members(self) -> int:
        """Number of members of a population: each has a search seed of its own."""
        return len(self.search_seeds)

    @property
    def iterations(self) -> int | None:
        """Iterations of a training before the sealed seeds; ``None`` for a race, which has those of its recipes."""
        return None if self.population is None else self.population.iterations

    def seeds_of(self, trial: int) -> tuple[int, ...]:
        """Return the search seeds of a trial: all of them; in a population, that of the member.

        Args:
            trial: Number of the trial.
        """
        if self.population is None:
            return self.search_seeds
        return () if trial == 0 else (self.search_seeds[(trial - 1) % self.members],)

    def require_seeds_for(self, processes: int) -> None:
        """Refuse sealed seeds that a training of the race would use in one of its processes.

        The processes of a training have its seed, its seed + 1, and so on.

        Args:
            processes: Number of processes of a training.

        Raises:
            UserError: If there is one.
        """
        for seed in self.search_seeds:
            if near := [sealed for sealed in self.sealed_seeds if abs(sealed - seed) < processes]:
                raise UserError(
                    f"search {self.name}: with {processes} processes, trainings with seed {seed} and with sealed seed "
                    f"{near[0]} share seeds, because each process adds its number: let sealed seeds differ from the "
                    f"search seeds by at least {processes}"
                )

    @property
    def cohort_stem(self) -> str:
        """Beginning of the names of all cohorts of this search."""
        return f"{self.name}-{self.digest[:8]}"


def load_search(path: Path) -> SearchDeclaration:
    """Read a search file.

    Args:
        path: The TOML file. Its name without the suffix names the search.

    Raises:
        UserError: If it can't be read, or is not a search.
    """
    path = Path(os.path.expanduser(path))
    try:
        content = read_toml(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} can't be read: {error}") from error
    version = content.get("version")
    if type(version) is not int or version != _VERSION:
        raise UserError(f"{path}: version {version!r} of a search is not supported: use version = {_VERSION}")
    if unknown := next((key for key in content if key not in _KEYS), None):
        raise UserError(f"{path}: unknown key {unknown!r}: {nearest(unknown, _KEYS)}")
    if missing := next((key for key in _REQUIRED if key not in content), None):
        raise UserError(f"{path}: {missing} is missing")
    if not names_a_folder(path.stem):
        raise UserError(f"{path}: the file's name begins the names of cohorts: use letters, digits, '_', '-', '+', '.'")
    space, stock = (
        read_space(f"{path}, space", content["space"]),
        read_values(f"{path}, stock", content.get("stock", {})),
    )
    set_here = {*(each.name for each in space.parameters), *stock}
    searched = tuple(f"--{name}" for name in (LIBRARY, NUM_ENVS) if name in set_here)
    search_seeds, sealed_seeds = _seeds(path, content)
    strategy: Strategy = _name(path, content, "strategy", get_args(Strategy.__value__))
    population = None
    if strategy == "population":
        population = _population(path, content)
        searched += ("--checkpoint",)
    elif "population" in content:
        raise UserError(f'{path}: population: this table needs strategy = "population"')
    budget_usd, budget_h = _budgets(path, content)
    return SearchDeclaration(
        name=path.stem,
        about=_text(path, content, "about") or path.stem,
        task=_text(path, content, "task") or "",
        arguments=check_arguments(
            f"{path}, arguments", content.get("arguments", []), (*_FLAGS, *searched), setter="search"
        ),
        space=space,
        stock=stock,
        search_seeds=search_seeds,
        sealed_seeds=sealed_seeds,
        panel=_text(path, content, "panel"),
        objective=_name(path, content, "objective", get_args(Objective.__value__)),
        strategy=strategy,
        population=population,
        budget_usd=budget_usd,
        budget_h=budget_h,
        control_every=_count(path, content),
    )


def _population(path: Path, content: dict[str, Any]) -> Population:
    """Check what a file says of its population: its table, its space, and keys that only a race has."""
    table = content.get("population")
    if not isinstance(table, dict) or "iterations" not in table:
        raise UserError(f"{path}: a population needs a table [population] with iterations = NUMBER")
    if unknown := next((key for key in table if key not in _POPULATION_KEYS), None):
        raise UserError(f"{path}, population: unknown key {unknown!r}: {nearest(unknown, _POPULATION_KEYS)}")
    iterations, replaced = table["iterations"], table.get("replaced", Population.replaced)
    factors = table.get("factors", list(Population.factors))
    if type(iterations) is not int or iterations < 1:
        raise UserError(f"{path}, population: iterations must be a whole number of at least 1, not {iterations!r}")
    if type(replaced) not in (int, float) or not 0 < replaced <= 0.5:
        raise UserError(f"{path}, population: replaced must be a number above 0 and up to 0.5, not {replaced!r}")
    if not isinstance(factors, list) or not factors or not all(map(_is_factor, factors)):
        raise UserError(f"{path}, population: factors must be positive numbers other than 1, like [0.8, 1.25]")
    if len(content["search_seeds"]) < 2:
        raise UserError(f"{path}: search_seeds: a population has a seed for each member: list at least 2")
    if "control_every" in content:
        raise UserError(f"{path}: control_every: a population has no controls: leave it out")
    if "max_iterations" in content.get("stock", {}):
        raise UserError(f'{path}, stock: max_iterations: write arguments = ["--max_iterations", "N"] instead')
    for name in content["space"]:
        if name not in _CHANGEABLE and not is_override(name):
            instead = f'write arguments = ["--{LIBRARY}", ...]' if name == LIBRARY else "set it in [stock]"
            raise UserError(
                f"{path}, space.{name}: a population can't change {name} during a training: {instead} instead"
            )
    return Population(iterations=iterations, replaced=float(replaced), factors=tuple(map(float, factors)))


def _is_factor(value: object) -> bool:
    """Tell whether a value is a factor that changes a number."""
    return type(value) in (int, float) and 0 < value < math.inf and value != 1  # type: ignore[operator]


def _seeds(path: Path, content: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the search seeds and the sealed seeds."""
    for key in ("search_seeds", "sealed_seeds"):
        seeds = content[key]
        if not isinstance(seeds, list) or not seeds or not all(type(each) is int and each >= 0 for each in seeds):
            raise UserError(f"{path}: {key} must be a list of whole numbers of at least 0, like [1, 2, 3]")
        if max(seeds) >= _SEED_LIMIT:
            raise UserError(f"{path}: {key}: seed {max(seeds)} is too large: training seeds lie below {_SEED_LIMIT}")
        if len(set(seeds)) != len(seeds):
            raise UserError(f"{path}: {key}: list each seed once")
    search, sealed = tuple(content["search_seeds"]), tuple(content["sealed_seeds"])
    if shared := sorted(set(search) & set(sealed)):
        raise UserError(f"{path}: seed {shared[0]} is a search seed and a sealed seed: replace it in one of the lists")
    if len(sealed) < FEWEST_SEALED:
        raise UserError(f"{path}: sealed_seeds: list at least {FEWEST_SEALED} seeds, not {len(sealed)}")
    return search, sealed


def _budgets(path: Path, content: dict[str, Any]) -> tuple[float | None, float | None]:
    """Return the budget in dollars and that in hours, one of which is ``None``."""
    given = [key for key in ("budget_usd", "budget_h") if key in content]
    if len(given) != 1:
        raise UserError(f"{path}: give either budget_usd or budget_h")
    value = content[given[0]]
    if type(value) not in (int, float) or not 0 < value < math.inf:
        raise UserError(f"{path}: {given[0]} must be a number above 0, like {given[0]} = 50, not {value!r}")
    return (float(value), None) if given[0] == "budget_usd" else (None, float(value))


def _text(path: Path, content: dict[str, Any], key: str) -> str | None:
    """Return a text; ``None`` if the file has none."""
    value = content.get(key)
    if key in content and (not isinstance(value, str) or not value):
        raise UserError(f"{path}: {key} must be text")
    return value


def _name(path: Path, content: dict[str, Any], key: str, known: tuple[str, ...]) -> Any:  # noqa: ANN401 - a literal
    """Return one of the known names; the first one if the file has none."""
    value = content.get(key, known[0])
    if value not in known:
        raise UserError(f"{path}: {key} {value!r}: {nearest(str(value), known)}")
    return value


def _count(path: Path, content: dict[str, Any]) -> int:
    """Return after how many trainings a control comes."""
    value = content.get("control_every", SearchDeclaration.control_every)
    if type(value) is not int or value < 1:
        raise UserError(f"{path}: control_every must be a whole number of at least 1, not {value!r}")
    return value
