"""Studies: files that list factors, sizes, machines and seeds, and the trainings that follow from them.

A size is a number of processes on each machine, a number of machines, and a number of environments in each process.
With strong scaling, all sizes have the same number of environments in total. With weak scaling, all sizes have the same
number of environments in each process.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ledger_lab.documents import read_toml
from ledger_lab.errors import UserError, nearest
from ledger_lab.files import config_root
from ledger_lab.names import names_a_folder

type Positive = Annotated[float, msgspec.Meta(gt=0, lt=1e300)]
"""A finite number above 0."""

type Count = Annotated[int, Meta(ge=1)]
type BatchRule = Literal["count", "count_sqrt", "count_linear", "size"]

SIZE_FLAGS = ("--num_envs", "--nproc", "--nodes", "--distributed", "--keep_minibatch_size", "--scale_lr")
"""Flags of ``train.py`` that a study with sizes sets itself."""
BATCH_RULES: Mapping[BatchRule, tuple[str, ...]] = {
    "count": (),
    "count_sqrt": ("--scale_lr", "sqrt"),
    "count_linear": ("--scale_lr", "linear"),
    "size": ("--keep_minibatch_size",),
}
"""How a training treats a batch that differs from the task's own, with the arguments of ``train.py``.

With ``count``, the number of minibatches stays constant, and each minibatch grows with the batch. The learning rate is
constant, grows with the square root of the batch, or grows linearly. With ``size``, the size of a minibatch and the
learning rate stay constant, and the number of gradient steps grows with the batch.
"""

MACHINE_FLAGS = ("--instance",)
"""Flags of ``train.py`` that a study with machines sets itself."""

STUDY_FLAGS = ("--seed", "--cohort", "--cohort_size", "--log_root", "--resume")
"""Flags of ``train.py`` that every study sets itself."""
_HELP = ("-h", "--help")
"""Flags that show a text instead of training."""
_NUM_ENVS = ("--num_envs", "env.scene.num_envs")
"""A flag, and the override that does the same."""


def find_declared(name: str, folder: str) -> Path:
    """Return the path of a file.

    Args:
        name: Name of a file in a folder of ``config``, without its suffix, or path of a ``.toml`` file.
        folder: ``studies`` or ``searches``.

    Raises:
        UserError: If there is no such file.
    """
    known = config_root() / folder
    path = Path(os.path.expanduser(name)) if name.endswith(".toml") else known / f"{name}.toml"
    if not path.is_file():
        names = sorted(each.stem for each in known.glob("*.toml"))
        raise UserError(f"{name!r}: name a .toml file, or a file in config/{folder}: {nearest(name, names)}")
    return path


def read_declared[Declared](path: Path, kind: type[Declared], more: Mapping[str, str] | None = None) -> Declared:
    """Read a file, and check it against the fields of a class.

    Args:
        path: The TOML file. Its name without the suffix begins the names of cohorts.
        kind: The class.
        more: Fields that are not in the file.

    Raises:
        UserError: If it can't be read, or is wrong.
    """
    try:
        content = read_toml(path)
        if known := sorted(content.keys() & dict(more or {}).keys()):
            raise ValueError(f"Object contains unknown field `{known[0]}`")
        found = msgspec.convert(content | dict(more or {}), kind)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} can't be read: {error}") from error
    if not names_a_folder(path.stem):
        raise UserError(f"{path}: the file's name begins the names of cohorts: use letters, digits, '_', '-', '+', '.'")
    return found


def check_arguments(
    where: str, found: object, taken: Sequence[str] = STUDY_FLAGS, *, setter: str = "study"
) -> tuple[str, ...]:
    """Check arguments for ``scripts/train.py``.

    Args:
        where: Place in the file, for messages.
        found: The arguments.
        taken: Flags that the study or the search sets itself.
        setter: What sets them, for messages: a study or a search.

    Returns:
        The arguments. As in a shell, ``~`` at the start of a value is replaced by the home folder.

    Raises:
        UserError: If they are not a list of strings, or name a flag of ``taken``.
    """
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise UserError(f'{where}: must be a list of texts, like ["--num_envs", "512"]')
    if named := next((each for each in found if _sets(each, taken)), None):
        raise UserError(f"{where}: {named}: leave it out, because the {setter} sets it")
    if helps := next((each for each in found if each in _HELP), None):
        raise UserError(f"{where}: {helps}: leave it out, because it trains nothing")
    return tuple(_at_home(each) for each in found)


def _sets(argument: str, taken: Sequence[str]) -> bool:
    """Tell whether an argument is one of some flags, in full or shortened, or the override that does the same."""
    name = argument.partition("=")[0]
    if _NUM_ENVS[0] in taken and name.lstrip("+") == _NUM_ENVS[1]:
        return True
    return len(name) > len("--") and name.startswith("--") and any(flag.startswith(name) for flag in taken)


def _at_home(argument: str) -> str:
    """Put the home folder in place of a ``~`` at the beginning of an argument, or of its value after ``=``."""
    name, equals, value = argument.rpartition("=")
    return f"{name}{equals}{os.path.expanduser(value)}"


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Processes and machines of a training."""

    processes: Count
    """Processes on each machine."""
    nodes: Count = 1
    """Machines."""

    @property
    def all_processes(self) -> int:
        """Processes on all machines."""
        return self.processes * self.nodes


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a training is, and how its batch is treated: a level of a study."""

    shape: Shape
    num_envs: int
    """Environments of each process."""
    batch: BatchRule = "count"

    def __str__(self) -> str:
        """Return processes, machines, environments of each process, and the rule if it is not ``count``."""
        name = f"{self.shape.processes}x{self.shape.nodes}x{self.num_envs}"
        return name if self.batch == "count" else f"{name}-{self.batch}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of ``train.py``."""
        numbers = ("--nproc", str(self.shape.processes), "--num_envs", str(self.num_envs))
        return (*numbers, *BATCH_RULES[self.batch])


class Scaling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[scaling]``."""

    kind: Literal["strong", "weak"]
    num_envs: Count
    """Environments of all processes together (strong), or of each process (weak)."""
    sizes: Annotated[tuple[Shape, ...], Meta(min_length=1)]
    batch: Annotated[tuple[BatchRule, ...], Meta(min_length=1)] = ("count",)
    """Rules for the batch; each is trained in each size."""

    def require_equal_shares(self) -> None:
        """Refuse sizes or rules that are listed twice, and environments that processes can't share equally.

        Raises:
            ValueError: If there are such.
        """
        for name in ("sizes", "batch"):
            if len({*getattr(self, name)}) != len(getattr(self, name)):
                raise ValueError(f"{name}: list each once")
        divisor = 1 if self.kind == "weak" else math.lcm(*(shape.all_processes for shape in self.sizes))
        if self.num_envs % divisor:
            below = self.num_envs // divisor * divisor
            near = " or ".join(str(each) for each in (below, below + divisor) if each)
            raise ValueError(
                f"{self.num_envs} environments can't be split equally among the processes of each size: use num_envs = "
                f"{near} (any multiple of {divisor}), or other sizes"
            )

    def levels(self) -> list[Size]:
        """Return all sizes, each with each rule for the batch."""
        return [
            Size(
                shape=shape,
                num_envs=self.num_envs if self.kind == "weak" else self.num_envs // shape.all_processes,
                batch=batch,
            )
            for batch in self.batch
            for shape in self.sizes
        ]


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where trainings run, and what that costs: a level of the table ``[machine]``."""

    cluster: Annotated[str, Meta(min_length=1)]
    """Name of a file in ``config/clusters``, such as ``local``, or path of a ``.toml`` file."""
    instance: Annotated[str, Meta(min_length=1)] | None = None
    """Entry of the price file; ``None`` for that of the cluster's file."""
    arguments: list[str] = []
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


class Study(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True, rename={"machines": "machine"}
):
    """A study file: factors × seeds."""

    version: Literal[1]
    path: str
    """The file; its name without the suffix begins the names of cohorts."""
    seeds: Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(min_length=1)]
    about: str = ""
    arguments: list[str] = []
    """Arguments of ``train.py`` of all trainings."""
    factors: dict[str, Annotated[dict[str, list[str]], Meta(min_length=1)]] = {}
    """Arguments of ``train.py`` by factor and level."""
    machines: dict[str, Machine] = {}
    """The table ``[machine]``, by level; the arms have its levels."""
    scaling: Scaling | None = None
    """The table ``[scaling]``; the arms have its sizes."""
    budget_usd: Positive | None = None
    """Most that all trainings together may cost [USD]; ``None`` without a limit. Nothing stops a study that exceeds it,
    but ``scripts/watch.py`` tells when it will."""
    budget_h: Positive | None = None
    """Most wall-clock time of all trainings, added up [h]; ``None`` without a limit."""

    def __post_init__(self) -> None:
        """Check what belongs together.

        Raises:
            ValueError: If a seed is listed twice, or the sizes can't work.
        """
        if len({*self.seeds}) != len(self.seeds):
            raise ValueError("seeds: list each seed once")
        if self.scaling is not None:
            self.scaling.require_equal_shares()

    @property
    def name(self) -> str:
        """Its name."""
        return Path(self.path).stem

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of ``train.py`` that the study sets itself."""
        sizes, machines = SIZE_FLAGS if self.scaling is not None else (), MACHINE_FLAGS if self.machines else ()
        return (*STUDY_FLAGS, *sizes, *machines)

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """All combinations of levels: of the factors, of the machines, and of the sizes.

        Raises:
            UserError: If an argument is refused, a level has no proper name, or two combinations would share a name.
        """
        common = self._checked("arguments", self.arguments)
        axes: list[Mapping[str, tuple[str, ...]]] = [
            {name: self._checked(f"level {name}", arguments) for name, arguments in levels.items()}
            for levels in self.factors.values()
        ]
        if self.machines:
            axes.append(
                {
                    level: (
                        *self._checked(f"[machine], {level}, arguments", machine.arguments),
                        *(("--instance", machine.instance) if machine.instance is not None else ()),
                    )
                    for level, machine in self.machines.items()
                }
            )
        sizes = {} if self.scaling is None else {str(size): size for size in self.scaling.levels()}
        axes += [{name: size.arguments for name, size in sizes.items()}] if sizes else []
        choose_task = [_choose_the_task(levels.values()) for levels in axes]
        arms = []
        for levels in itertools.product(*(levels.items() for levels in axes)):
            names = tuple(name for name, _ in levels)
            if bad := next((name for name in names if not names_a_folder(name)), None):
                raise UserError(f"{self.path}: level {bad!r} must be a name of letters, digits, '_', '-', '+' and '.'")
            arms.append(
                Arm(
                    cohort="-".join((self.name, *names)),
                    levels=names,
                    task=tuple(name for name, chooses in zip(names, choose_task, strict=True) if chooses),
                    setting=tuple(name for name, chooses in zip(names, choose_task, strict=True) if not chooses),
                    arguments=(*common, *itertools.chain(*(arguments for _, arguments in levels))),
                    size=sizes[names[-1]] if sizes else None,
                    machine=names[len(self.factors)] if self.machines else None,
                )
            )
        if len({arm.cohort for arm in arms}) != len(arms):
            raise UserError(f"{self.path}: two combinations of levels would share the cohort's name; rename one level")
        return tuple(arms)

    def _checked(self, where: str, arguments: list[str]) -> tuple[str, ...]:
        """Check arguments of ``train.py``."""
        return check_arguments(f"{self.path}, {where}", arguments, self.flags)

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
    found = read_declared(path, Study, {"path": str(path)})
    assert found.arms  # refuses what can't be combined
    return found


def _choose_the_task(levels: Iterable[Sequence[str]]) -> bool:
    """Tell whether the levels of a factor name tasks."""
    return any(argument.partition("=")[0] == "--task" for level in levels for argument in level)
