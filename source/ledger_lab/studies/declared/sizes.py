"""The table ``[scaling]`` of a study: the same training in several sizes.

A size is a number of processes on each machine, a number of machines, and a number of environments in each process.
With strong scaling, all sizes have the same number of environments in total. With weak scaling, all sizes have the same
number of environments in each process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import msgspec
from msgspec import Meta

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

_FARTHEST = 65_536
"""Smallest upper end of the search for a number of environments that fits."""


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
    batch: BatchRule

    @property
    def name(self) -> str:
        """Name of the level; ``count`` is left out."""
        return str(self.size) if self.batch == "count" else f"{self.size}-{self.batch}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of ``train.py``."""
        numbers = ("--nproc", str(self.size.shape.processes), "--num_envs", str(self.size.num_envs))
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
        if self.num_envs % self.divisor:
            near = " or ".join(map(str, self.nearest(lambda _: True)))
            raise ValueError(
                f"{self.num_envs} environments can't be split equally among the processes of each size: use num_envs = "
                f"{near} (any multiple of {self.divisor}), or other sizes"
            )

    @property
    def divisor(self) -> int:
        """Number that :attr:`num_envs` must be a multiple of, so that all processes have equally many environments."""
        return 1 if self.kind == "weak" else math.lcm(*(shape.all_processes for shape in self.sizes))

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

        def first(tried: range) -> int | None:
            with_number = ((each, msgspec.structs.replace(self, num_envs=each)) for each in tried)
            return next((each for each, scaling in with_number if fits(scaling)), None)

        found = (first(smaller), first(larger))
        return [each for each in found if each is not None]

    def levels(self) -> list[SizeLevel]:
        """Return all sizes, each with each rule for the batch."""
        sizes = [self.size_of(shape) for shape in self.sizes]
        return [SizeLevel(size=size, batch=batch) for batch in self.batch for size in sizes]
