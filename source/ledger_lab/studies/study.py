"""Study files, and the trainings that follow from them."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger_lab.documents import read_toml
from ledger_lab.errors import UserError
from ledger_lab.names import names_a_folder
from ledger_lab.paths import config_root

_VERSION = 1
_KEYS = {"version", "about", "seeds", "arguments", "factors", "budget_usd", "budget_h"}
_OURS = ("--seed", "--cohort", "--cohort_size", "--log_root")
"""Flags of ``train.py`` that the study sets itself."""


@dataclass(frozen=True)
class Arm:
    """One combination of levels, trained once per seed; its runs are a cohort."""

    cohort: str
    """``<study>`` and its levels, joined by ``-``."""
    levels: tuple[str, ...]
    """A level of each factor, in the file's order."""
    task: tuple[str, ...]
    """Those levels that belong to factors that choose the task. Only arms of equal levels can be compared."""
    setting: tuple[str, ...]
    """The other levels. Over several tasks, arms with the same setting belong together."""
    arguments: tuple[str, ...]
    """Arguments of ``scripts/train.py``."""


@dataclass(frozen=True)
class Training:
    """One training of an arm."""

    arm: Arm
    seed: int


@dataclass(frozen=True, kw_only=True)
class Study:
    """Factors × seeds."""

    name: str
    about: str
    seeds: tuple[int, ...]
    arms: tuple[Arm, ...]
    budget_usd: float | None = None
    """Most that all trainings together may cost [USD]; ``None`` without a limit. Nothing stops a study that exceeds it,
    but ``scripts/watch.py`` tells when it will."""
    budget_h: float | None = None
    """Most wall-clock time of all trainings, added up [h]; ``None`` without a limit."""

    def arms_by_task(self) -> list[list[Arm]]:
        """Return the arms of each task, in order."""
        tasks: dict[tuple[str, ...], list[Arm]] = {}
        for arm in self.arms:
            tasks.setdefault(arm.task, []).append(arm)
        return [*tasks.values()]

    def trainings(self) -> list[Training]:
        """Return all trainings, seed by seed; every second seed takes the arms in reverse order.

        Then a machine that becomes slower favors no arm.
        """
        return [
            Training(arm, seed)
            for number, seed in enumerate(self.seeds)
            for arm in (self.arms if number % 2 == 0 else reversed(self.arms))
        ]


def load_study(study: str) -> Study:
    """Read a study.

    Args:
        study: Name of a file in ``config/studies``, without its suffix, or path of a ``.toml`` file.

    Returns:
        The study.

    Raises:
        UserError: If there is no such file, or it is not a study.
    """
    path = Path(os.path.expanduser(study)) if study.endswith(".toml") else config_root() / "studies" / f"{study}.toml"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in (config_root() / "studies").glob("*.toml")))
        raise UserError(f"no study {study!r}: name a .toml file, or one of {known}")
    try:
        content = read_toml(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} can't be read: {error}") from error
    return _study(path, content)


def _study(path: Path, content: dict[str, Any]) -> Study:
    """Build a study from a file's content."""
    if content.get("version") != _VERSION:
        raise UserError(
            f"{path}: version {content.get('version')!r} of a study is not supported: use version = {_VERSION}"
        )
    if unknown := sorted(content.keys() - _KEYS):
        raise UserError(f"{path}: unknown key {unknown[0]!r}; a study has {', '.join(sorted(_KEYS))}")
    if not names_a_folder(path.stem):
        raise UserError(
            f"{path}: the name of the file becomes the name of cohorts: use only letters, digits, '_', '-', '+' and '.'"
        )
    seeds = content.get("seeds")
    if not isinstance(seeds, list) or not seeds or not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise UserError(f"{path}: seeds must be a list of whole numbers of at least 0, like [1, 2, 3]")
    if len(set(seeds)) != len(seeds):
        raise UserError(f"{path}: seeds: list each seed once")
    about = content.get("about", path.stem)
    if not isinstance(about, str):
        raise UserError(f"{path}: about must be text")
    common = check_arguments(f"{path}, arguments", content.get("arguments", []))
    factors = content.get("factors", {})
    if not isinstance(factors, dict) or not all(isinstance(levels, dict) and levels for levels in factors.values()):
        raise UserError(
            f'{path}: factors must be tables of levels, like [factors.library] rsl_rl = ["--rl_library", …]'
        )
    choose_task = [_choose_the_task(levels.values()) for levels in factors.values()]
    arms = []
    for levels in itertools.product(*(levels.items() for levels in factors.values())):
        names = tuple(name for name, _ in levels)
        if bad := next((name for name in names if not names_a_folder(name)), None):
            raise UserError(f"{path}: level {bad!r} must be a name of letters, digits, '_', '-', '+' and '.'")
        own = [check_arguments(f"{path}, level {name}", arguments) for name, arguments in levels]
        arms.append(
            Arm(
                cohort="-".join((path.stem, *names)),
                levels=names,
                task=tuple(name for name, chooses in zip(names, choose_task, strict=True) if chooses),
                setting=tuple(name for name, chooses in zip(names, choose_task, strict=True) if not chooses),
                arguments=(*common, *itertools.chain(*own)),
            )
        )
    if len({arm.cohort for arm in arms}) != len(arms):
        raise UserError(f"{path}: two combinations of levels would share the cohort's name; rename one level")
    return Study(
        name=path.stem,
        about=about,
        seeds=tuple(seeds),
        arms=tuple(arms),
        budget_usd=_budget(path, content, "budget_usd"),
        budget_h=_budget(path, content, "budget_h"),
    )


def _budget(path: Path, content: dict[str, Any], key: str) -> float | None:
    """Return a budget; ``None`` if the file has none."""
    if key not in content:
        return None
    found = content[key]
    if type(found) not in (int, float) or not 0 < found < math.inf:
        raise UserError(f"{path}: {key} must be a number above 0, like {key} = 50, not {found!r}")
    return float(found)


def _choose_the_task(levels: Iterable[object]) -> bool:
    """Tell whether the levels of a factor name tasks."""
    lists = [level for level in levels if isinstance(level, list)]
    return any(str(argument).partition("=")[0] == "--task" for level in lists for argument in level)


def check_arguments(where: str, found: object) -> tuple[str, ...]:
    """Check arguments for ``scripts/train.py``.

    Args:
        where: Place in the study file, for messages.
        found: The arguments.

    Returns:
        The arguments. As in a shell, ``~`` at the start of a value is replaced by the home folder.

    Raises:
        UserError: If they are not a list of strings, or name a flag that the study sets itself.
    """
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise UserError(f'{where}: must be a list of texts, like ["--num_envs", "512"]')
    if taken := next((each for each in found if each.partition("=")[0] in _OURS), None):
        raise UserError(f"{where}: {taken}: leave it out, because the study sets it")
    return tuple(_at_home(each) for each in found)


def _at_home(argument: str) -> str:
    """Put the home folder in place of a ``~`` at the beginning of an argument, or of its value after ``=``."""
    name, equals, value = argument.rpartition("=")
    return f"{name}{equals}{os.path.expanduser(value)}"
