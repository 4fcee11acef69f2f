"""Study files, and the trainings that follow from them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ledger_lab.errors import UserError
from ledger_lab.names import names_a_folder
from ledger_lab.studies.declared.arguments import STUDY_FLAGS, check_arguments
from ledger_lab.studies.declared.files import Positive, find_declared, read_declared
from ledger_lab.studies.declared.sizes import SIZE_FLAGS, Scaling, Size

type _Factor = Mapping[str, tuple[str, ...]]
"""Arguments of ``train.py`` by level."""

MACHINE_FLAGS = ("--instance",)
"""Flags of ``train.py`` that a study with machines sets itself."""


class MachineTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the table ``[machine]`` in a file."""

    cluster: Annotated[str, Meta(min_length=1)]
    instance: Annotated[str, Meta(min_length=1)] | None = None
    arguments: list[str] = []


class StudyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a study file holds; see :class:`Study`."""

    version: Literal[1]
    seeds: Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(min_length=1)]
    about: str = ""
    arguments: list[str] = []
    factors: dict[str, Annotated[dict[str, list[str]], Meta(min_length=1)]] = {}
    machine: dict[str, MachineTable] = {}
    scaling: Scaling | None = None
    budget_usd: Positive | None = None
    budget_h: Positive | None = None

    def __post_init__(self) -> None:
        """Check what belongs together.

        Raises:
            ValueError: If a seed is listed twice, or the sizes can't work.
        """
        if len({*self.seeds}) != len(self.seeds):
            raise ValueError("seeds: list each seed once")
        if self.scaling is not None:
            self.scaling.require_equal_shares()


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where trainings run, and what that costs: a level of the table ``[machine]``."""

    cluster: str
    """Name of a file in ``config/clusters``, such as ``local``, or path of a ``.toml`` file."""
    instance: str | None
    """Entry of the price file; ``None`` for that of the cluster's file."""
    arguments: tuple[str, ...]
    """Arguments of ``train.py``."""


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
    path = find_declared(study, "studies")
    file = read_declared(path, StudyFile)
    flags = _flags(has_sizes=file.scaling is not None, has_machines=bool(file.machine))

    def checked(where: str, arguments: list[str]) -> tuple[str, ...]:
        return check_arguments(f"{path}, {where}", arguments, flags)

    factors = [
        {name: checked(f"level {name}", arguments) for name, arguments in levels.items()}
        for levels in file.factors.values()
    ]
    machines = {
        level: Machine(
            cluster=os.path.expanduser(table.cluster),
            instance=table.instance,
            arguments=(
                *checked(f"[machine], {level}, arguments", table.arguments),
                *(() if table.instance is None else ("--instance", table.instance)),
            ),
        )
        for level, table in file.machine.items()
    }
    return Study(
        name=path.stem,
        about=file.about or path.stem,
        seeds=file.seeds,
        arms=tuple(_arms(path, checked("arguments", file.arguments), factors, machines, file.scaling)),
        budget_usd=file.budget_usd,
        budget_h=file.budget_h,
        scaling=file.scaling,
        machines=machines,
    )


def _flags(*, has_sizes: bool, has_machines: bool) -> tuple[str, ...]:
    """Return the flags of ``train.py`` that a study sets itself."""
    return (*STUDY_FLAGS, *(SIZE_FLAGS if has_sizes else ()), *(MACHINE_FLAGS if has_machines else ()))


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


def _choose_the_task(levels: Iterable[Sequence[str]]) -> bool:
    """Tell whether the levels of a factor name tasks."""
    return any(argument.partition("=")[0] == "--task" for level in levels for argument in level)
