"""Search files: what is searched, on which seeds, and for how much."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ledger_lab.errors import UserError
from ledger_lab.studies.declared import STUDY_FLAGS, Positive, check_arguments, find_declared, read_declared
from ledger_lab.studies.search.space import (
    LIBRARY,
    NUM_ENVS,
    Parameter,
    Value,
    Values,
    check_stock,
    is_override,
    read_space,
)

type Seed = Annotated[int, Meta(ge=0, lt=2**32)]
"""Training seed; ``train.py`` accepts those below 2³²."""

_FLAGS = (*STUDY_FLAGS, "--task", "--panel", "--recipe", "--limit_s", "--on")
"""Flags of ``train.py`` that a search sets itself."""
_CHANGEABLE = (
    *("learning_rate", "schedule", "kl_target", "epochs", "minibatches", "max_grad_norm", "clip", "value_clip"),
    *("value_coef", "entropy_coef", "discount", "gae_lambda", "timeout_bootstrap", "reward_scale"),
)
"""Fields of a recipe that a population can change during a training. The others belong to the networks, to their
normalizers, to the beginning of a training, or to the length of an iteration."""


class Population(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the members of a population are trained, and replaced (Jaderberg et al. 2017, arXiv:1711.09846)."""

    iterations: Annotated[int, Meta(ge=1)]
    """Iterations that a member trains in each generation."""
    replaced: Annotated[float, Meta(gt=0, le=0.5)] = 0.25
    """Share of the members that are replaced after a generation; at least one member."""
    factors: Annotated[tuple[Positive, ...], Meta(min_length=1)] = (0.8, 1.25)
    """Factors by which the numbers of a copied member change; none of them 1."""


class SearchDeclaration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """A search file. If anything but ``name`` and ``about`` changes, it is another search: the digest differs."""

    name: str
    """Name of the file, without its suffix."""
    version: Literal[1]
    task: str
    space: Annotated[dict[str, dict[str, Any]], Meta(min_length=1)]
    """Tables of the parameters, see :class:`~ledger_lab.studies.search.space.Parameter`."""
    search_seeds: Annotated[tuple[Seed, ...], Meta(min_length=1)]
    """Training seeds of the race, in its order; in a population, that of each member."""
    sealed_seeds: Annotated[tuple[Seed, ...], Meta(min_length=10)]
    """Training seeds of the final comparison. No training of the race may use them."""
    about: str = ""
    arguments: list[str] = []
    """Arguments of ``train.py``."""
    stock: dict[str, Value] = {}
    """Where the stock recipe differs from the task's own. Each trial has these values, unless it has another one."""
    panel: str | None = None
    """Panel that all trainings are scored on; ``None`` for that of the task."""
    objective: Literal["time", "cost"] = "time"
    """What trials are compared by: their wall-clock time, or their cost, until the target is proven."""
    strategy: Literal["tpe", "random", "population"] = "tpe"
    """Where new trials come from: ``tpe`` learns from earlier trials, ``random`` does not. With ``population``, a
    population is trained in place of the race."""
    population: Population | None = None
    """The population; ``None`` for a race."""
    budget_usd: Positive | None = None
    """Most that the race may cost [USD]. Either this or :attr:`budget_h` is given."""
    budget_h: Positive | None = None
    """Most wall-clock time of all trainings of the race, added up [h]."""

    def __post_init__(self) -> None:
        """Check what belongs together.

        Raises:
            ValueError: If fields contradict each other.
        """
        if (self.budget_usd is None) == (self.budget_h is None):
            raise ValueError("give either budget_usd or budget_h")
        for name in ("search_seeds", "sealed_seeds"):
            if len({*getattr(self, name)}) != len(getattr(self, name)):
                raise ValueError(f"{name}: list each seed once")
        if shared := sorted({*self.search_seeds} & {*self.sealed_seeds}):
            raise ValueError(f"seed {shared[0]} is a search seed and a sealed seed: replace it in one of the lists")
        if (self.strategy == "population") != (self.population is not None):
            raise ValueError('strategy = "population" and a table [population] need each other')
        if self.population is None:
            return
        if 1.0 in self.population.factors:
            raise ValueError("population.factors: 1 changes nothing: leave it out")
        if len(self.search_seeds) < 2:
            raise ValueError("search_seeds: a population has a seed for each member: list at least 2")
        if "max_iterations" in self.stock:
            raise ValueError('stock: max_iterations: write arguments = ["--max_iterations", "N"] instead')
        for name in self.space:
            if name not in _CHANGEABLE and not is_override(name):
                instead = f'write arguments = ["--{LIBRARY}", ...]' if name == LIBRARY else "set it in [stock]"
                raise ValueError(f"space.{name}: a population can't change it during a training: {instead} instead")

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters.

        Raises:
            UserError: If one is wrong.
        """
        return read_space(f"{self.name}, space", self.space)

    @cached_property
    def train_arguments(self) -> tuple[str, ...]:
        """Arguments of ``train.py`` in the file.

        Raises:
            UserError: If one is refused.
        """
        flags = tuple(f"--{each}" for each in (LIBRARY, NUM_ENVS) if each in {*self.space, *self.stock})
        flags += ("--checkpoint",) if self.population is not None else ()
        return check_arguments(f"{self.name}, arguments", self.arguments, (*_FLAGS, *flags), setter="search")

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that decides how the search goes: all but ``name`` and ``about``."""
        content = {**msgspec.to_builtins(self), "about": ""}
        del content["name"]
        return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()

    @property
    def cohort_stem(self) -> str:
        """Beginning of the names of all cohorts of this search."""
        return f"{self.name}-{self.digest[:8]}"

    @property
    def common_arguments(self) -> list[str]:
        """Arguments of ``train.py`` that all new trainings have."""
        panel = [] if self.panel is None else ["--panel", self.panel]
        return [*self.train_arguments, "--task", self.task, *panel]

    def recipe(self, values: Values) -> Values:
        """Return everything that a trial sets: the values of ``[stock]``, and its own."""
        return {**self.stock, **values}

    @property
    def is_race(self) -> bool:
        """Whether recipes race; a population is trained if not."""
        return self.population is None

    @property
    def members(self) -> int:
        """Number of members of a population: each has a search seed of its own."""
        return len(self.search_seeds)

    @property
    def budget(self) -> float:
        """The budget [:attr:`unit`]."""
        return self.budget_h or self.budget_usd or 0.0

    @property
    def unit(self) -> str:
        """Unit of the budget."""
        return "h" if self.budget_usd is None else "USD"

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


def load_search(search: str) -> SearchDeclaration:
    """Read a search file.

    Args:
        search: Name of a file in ``config/searches``, without its suffix, or path of a ``.toml`` file.

    Raises:
        UserError: If it can't be read, or is not a search.
    """
    path = find_declared(search, "searches")
    found = read_declared(path, SearchDeclaration, {"name": path.stem})
    check_stock(f"{found.name}, stock", found.stock)
    assert found.parameters and found.train_arguments is not None  # refuses what msgspec can't
    return found
