"""Study files, and the trainings that follow from them."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledger_lab.documents import read_toml
from ledger_lab.errors import UserError
from ledger_lab.names import names_a_folder
from ledger_lab.paths import config_root
from ledger_lab.studies.declared.arguments import STUDY_FLAGS, check_arguments
from ledger_lab.studies.declared.machines import MACHINE_FLAGS, Machine, read_machines
from ledger_lab.studies.declared.sizes import SIZE_FLAGS, Scaling, Size, read_scaling

type _Factor = Mapping[str, tuple[str, ...]]
"""Arguments of ``train.py`` by level."""

_VERSION = 1
_KEYS = {"version", "about", "seeds", "arguments", "factors", "machine", "scaling", "budget_usd", "budget_h"}


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
    size: Size | None = None
    """How large its trainings are; ``None`` if the study has no table ``[scaling]``."""
    batch: str | None = None
    """How its trainings treat a batch that differs from the task's own; ``None`` if :attr:`size` is."""
    machine: str | None = None
    """Level of the table ``[machine]`` where its trainings run; ``None`` if the study has no such table."""

    @property
    def nodes(self) -> int | None:
        """Machines of each training; ``None`` if the study does not say."""
        return None if self.size is None else self.size.shape.nodes


@dataclass(frozen=True)
class Training:
    """One training of an arm."""

    arm: Arm
    seed: int

    @property
    def key(self) -> tuple[str, int]:
        """Its cohort and seed."""
        return (self.arm.cohort, self.seed)


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
    scaling: Scaling | None = None
    """The table ``[scaling]``; the arms have its sizes."""
    machines: Mapping[str, Machine] = field(default_factory=dict)
    """The table ``[machine]``, by level; the arms have its levels."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of ``train.py`` that the study sets itself."""
        return _flags(has_sizes=self.scaling is not None, has_machines=bool(self.machines))

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
    if type(content.get("version")) is not int or content["version"] != _VERSION:
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
    flags = _flags(has_sizes="scaling" in content, has_machines="machine" in content)
    scaling = read_scaling(f"{path}, [scaling]", content["scaling"]) if "scaling" in content else None
    machines = read_machines(f"{path}, [machine]", content["machine"], flags) if "machine" in content else {}
    common = check_arguments(f"{path}, arguments", content.get("arguments", []), flags)
    factors = _factors(path, content.get("factors", {}), flags)
    arms = _arms(path, common, factors, machines, scaling)
    return Study(
        name=path.stem,
        about=about,
        seeds=tuple(seeds),
        arms=tuple(arms),
        budget_usd=_budget(path, content, "budget_usd"),
        budget_h=_budget(path, content, "budget_h"),
        scaling=scaling,
        machines=machines,
    )


def _flags(*, has_sizes: bool, has_machines: bool) -> tuple[str, ...]:
    """Return the flags of ``train.py`` that a study sets itself."""
    return (*STUDY_FLAGS, *(SIZE_FLAGS if has_sizes else ()), *(MACHINE_FLAGS if has_machines else ()))


def _factors(path: Path, found: object, flags: Sequence[str]) -> list[_Factor]:
    """Check the factors.

    Args:
        path: The study file.
        found: Content of the table.
        flags: Flags of ``train.py`` that the study sets itself.

    Raises:
        UserError: If they are not tables of levels with arguments.
    """
    if not isinstance(found, dict) or not all(isinstance(levels, dict) and levels for levels in found.values()):
        raise UserError(
            f'{path}: factors must be tables of levels, like [factors.library] rsl_rl = ["--rl_library", …]'
        )
    return [
        {name: check_arguments(f"{path}, level {name}", arguments, flags) for name, arguments in levels.items()}
        for levels in found.values()
    ]


def _arms(
    path: Path,
    common: Sequence[str],
    factors: Sequence[_Factor],
    machines: Mapping[str, Machine],
    scaling: Scaling | None,
) -> list[Arm]:
    """Return all combinations of levels: of the factors, of the machines, and of the sizes.

    Raises:
        UserError: If a level has no proper name, or two combinations would share a name.
    """
    sizes = {} if scaling is None else {level.name: level for level in scaling.levels()}
    axes: list[_Factor] = [*factors]
    if machines:
        axes.append({name: machine.arguments for name, machine in machines.items()})
    if sizes:
        axes.append({name: level.arguments for name, level in sizes.items()})
    choose_task = [_choose_the_task(levels.values()) for levels in axes]
    arms = []
    for levels in itertools.product(*(levels.items() for levels in axes)):
        names = tuple(name for name, _ in levels)
        if bad := next((name for name in names if not names_a_folder(name)), None):
            raise UserError(f"{path}: level {bad!r} must be a name of letters, digits, '_', '-', '+' and '.'")
        arms.append(
            Arm(
                cohort="-".join((path.stem, *names)),
                levels=names,
                task=tuple(name for name, chooses in zip(names, choose_task, strict=True) if chooses),
                setting=tuple(name for name, chooses in zip(names, choose_task, strict=True) if not chooses),
                arguments=(*common, *itertools.chain(*(arguments for _, arguments in levels))),
                size=sizes[names[-1]].size if sizes else None,
                batch=sizes[names[-1]].batch if sizes else None,
                machine=names[len(factors)] if machines else None,
            )
        )
    if len({arm.cohort for arm in arms}) != len(arms):
        raise UserError(f"{path}: two combinations of levels would share the cohort's name; rename one level")
    return arms


def _budget(path: Path, content: dict[str, Any], key: str) -> float | None:
    """Return a budget; ``None`` if the file has none."""
    if key not in content:
        return None
    found = content[key]
    if type(found) not in (int, float) or not 0 < found < math.inf:
        raise UserError(f"{path}: {key} must be a number above 0, like {key} = 50, not {found!r}")
    return float(found)


def _choose_the_task(levels: Iterable[Sequence[str]]) -> bool:
    """Tell whether the levels of a factor name tasks."""
    return any(argument.partition("=")[0] == "--task" for level in levels for argument in level)
