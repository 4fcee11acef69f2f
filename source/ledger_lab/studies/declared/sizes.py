"""The table ``[scaling]`` of a study: the same training in several sizes.

A size is a number of processes on each machine, a number of machines, and a number of environments in each process.
With strong scaling, all sizes have the same number of environments in total. With weak scaling, all sizes have the same
number of environments in each process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

from ledger_lab.errors import UserError, nearest
from ledger_lab.tasks.recipes.rules import count

type ScalingKind = Literal["strong", "weak"]

SIZE_FLAGS = ("--num_envs", "--nproc", "--nodes", "--distributed", "--keep_minibatch_size", "--scale_lr")
"""Flags of ``train.py`` that a study with sizes sets itself."""
BATCH_RULES: Mapping[str, tuple[str, ...]] = {
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

_KINDS: tuple[ScalingKind, ...] = get_args(ScalingKind.__value__)
_KEYS = ("kind", "num_envs", "sizes", "batch")
_LARGEST = 1_000_000
"""Largest number of environments, of processes or of machines."""
_MOST_SIZES = 100
"""Largest number of sizes."""
_FARTHEST = 65_536
"""Smallest upper end of the search for a number of environments that fits."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Processes and machines of a training."""

    processes: int
    """Processes on each machine."""
    nodes: int = 1
    """Machines."""

    @property
    def all_processes(self) -> int:
        """Processes on all machines."""
        return self.processes * self.nodes


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a training is."""

    shape: Shape
    num_envs: int
    """Environments of each process."""

    def __str__(self) -> str:
        """Return processes, machines and environments of each process, as in the names of cohorts."""
        return f"{self.shape.processes}x{self.shape.nodes}x{self.num_envs}"


@dataclass(frozen=True, kw_only=True)
class SizeLevel:
    """A size, and how its batch is treated: a level of a study."""

    size: Size
    batch: str
    """One of :data:`BATCH_RULES`."""

    @property
    def name(self) -> str:
        """Name of the level; ``count`` is left out."""
        return str(self.size) if self.batch == "count" else f"{self.size}-{self.batch}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of ``train.py``."""
        numbers = ("--nproc", str(self.size.shape.processes), "--num_envs", str(self.size.num_envs))
        return (*numbers, *BATCH_RULES[self.batch])


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """The table ``[scaling]``."""

    kind: ScalingKind
    num_envs: int
    """Environments of all processes together (strong), or of each process (weak)."""
    shapes: tuple[Shape, ...]
    batch: tuple[str, ...]
    """Names in :data:`BATCH_RULES`; each is trained in each size."""

    @property
    def divisor(self) -> int:
        """Number that :attr:`num_envs` must be a multiple of, so that all processes have equally many environments."""
        return 1 if self.kind == "weak" else math.lcm(*(shape.all_processes for shape in self.shapes))

    def size_of(self, shape: Shape) -> Size:
        """Return the size with some processes and machines."""
        num_envs = self.num_envs if self.kind == "weak" else self.num_envs // shape.all_processes
        return Size(shape=shape, num_envs=num_envs)

    def nearest(self, fits: Callable[[Self], bool]) -> list[int]:
        """Return the nearest smaller and the nearest larger number of environments that fit, as far as there are any.

        Args:
            fits: Tells whether the table would fit with another number of environments.
        """
        here = self.num_envs // self.divisor * self.divisor
        farthest = max(_FARTHEST, 2 * max(here, self.divisor))
        smaller = range(here if here < self.num_envs else here - self.divisor, 0, -self.divisor)
        larger = range(here + self.divisor, farthest + 1, self.divisor)
        found = (
            next((each for each in tried if fits(replace(self, num_envs=each))), None) for tried in (smaller, larger)
        )
        return [each for each in found if each is not None]

    def levels(self) -> list[SizeLevel]:
        """Return all sizes, each with each rule for the batch."""
        sizes = [self.size_of(shape) for shape in self.shapes]
        return [SizeLevel(size=size, batch=batch) for batch in self.batch for size in sizes]


def read_scaling(where: str, found: object) -> Scaling:
    """Check the table ``[scaling]`` of a study.

    Args:
        where: The file and the table, for messages.
        found: The content of the table.

    Raises:
        UserError: If it is not such a table, or the environments can't be split among the processes of a size.
    """
    if not isinstance(found, dict):
        raise UserError(f"{where}: must be a table with {', '.join(_KEYS)}")
    if unknown := sorted(found.keys() - {*_KEYS}):
        raise UserError(f"{where}: unknown key {unknown[0]!r}: {nearest(unknown[0], _KEYS)}")
    kind = next((each for each in _KINDS if each == found.get("kind")), None)
    if kind is None:
        raise UserError(
            f'{where}: kind must be "strong" (num_envs of all processes together) or "weak" (num_envs of each process)'
        )
    scaling = Scaling(
        kind=kind,
        num_envs=_count(f"{where}: num_envs", found.get("num_envs")),
        shapes=_shapes(where, found.get("sizes")),
        batch=_batch(where, found.get("batch", ["count"])),
    )
    if scaling.num_envs % scaling.divisor:
        near = " or ".join(str(each) for each in scaling.nearest(lambda _: True) if each <= _LARGEST)
        way = (
            f"use num_envs = {near} (any multiple of {scaling.divisor}), or other sizes" if near else "use other sizes"
        )
        raise UserError(
            f"{where}: {scaling.num_envs} environments can't be split equally among the processes of each size: {way}"
        )
    return scaling


def _count(what: str, found: object) -> int:
    """Return a whole number of at least 1.

    Raises:
        UserError: If it is anything else.
    """
    if not isinstance(found, int) or count(found) or found > _LARGEST:
        raise UserError(f"{what} must be a whole number from 1 to {_LARGEST}, not {found!r}")
    return found


def _shapes(where: str, found: object) -> tuple[Shape, ...]:
    """Return the processes and machines of all sizes.

    Raises:
        UserError: If it is not a list of tables, or two sizes are equal.
    """
    if not isinstance(found, list) or not found or not all(isinstance(each, Mapping) for each in found):
        raise UserError(f"{where}: sizes must be a list like [{{ processes = 1 }}, {{ processes = 8, nodes = 2 }}]")
    if len(found) > _MOST_SIZES:
        raise UserError(f"{where}: sizes: {len(found)} sizes are too many: list at most {_MOST_SIZES}")
    shapes = []
    for each in found:
        if unknown := sorted(each.keys() - {"processes", "nodes"}):
            raise UserError(f"{where}: sizes: unknown key {unknown[0]!r}: a size has processes and nodes")
        processes, nodes = (
            _count(f"{where}: sizes: {key}", each.get(key, 1 if key == "nodes" else None))
            for key in ("processes", "nodes")
        )
        shapes.append(Shape(processes=processes, nodes=nodes))
    if len(set(shapes)) != len(shapes):
        raise UserError(f"{where}: sizes: list each size once")
    return tuple(shapes)


def _batch(where: str, found: object) -> tuple[str, ...]:
    """Return the rules for the batch.

    Raises:
        UserError: If it is not a list of known rules, or names one twice.
    """
    rules: Sequence[object] = found if isinstance(found, list) else []
    if not rules or not all(isinstance(each, str) for each in rules):
        raise UserError(f"{where}: batch must be a list of {', '.join(BATCH_RULES)}")
    if unknown := next((each for each in rules if each not in BATCH_RULES), None):
        raise UserError(f"{where}: batch: unknown rule {unknown!r}: {nearest(str(unknown), BATCH_RULES)}")
    if len(set(rules)) != len(rules):
        raise UserError(f"{where}: batch: list each rule once")
    return tuple(str(each) for each in rules)
