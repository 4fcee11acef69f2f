"""Records the norms of a training's gradients, from which the ledger's reader estimates their noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ledger_lab.ledger import GradientNorms as GradientRow
from ledger_lab.ledger import Row
from ledger_lab.training.launch import World
from ledger_lab.training.runners import Trainer
from ledger_lab.training.runners.collectives import GradientNorms, NormSums

_MOST_ROWS = 60
"""Largest number of rows per process and training: 20 for each third of it."""


class GradientWatch:
    """Measures the gradients of a training in several processes; in a single process, there is nothing to compare."""

    def __init__(self, world: World, max_iterations: int, append: Callable[[Row], None]) -> None:
        """Set it up.

        Args:
            world: The processes.
            max_iterations: Iterations of the training.
            append: Writes a row into the journal of this process.
        """
        self._world, self._max_iterations, self._append = world, max_iterations, append
        self._every = max(1, math.ceil(max_iterations / _MOST_ROWS))
        self._norms: GradientNorms | None = None
        self._sums = NormSums()
        self._iterations = 0

    @contextmanager
    def measuring(self, trainer: Trainer) -> Iterator[None]:
        """Measure the gradients of a trainer inside the context, if its library is known to average them.

        A training that ends early, ends within a stretch. The row of this shorter stretch is written at the end.

        Args:
            trainer: The trainer.
        """
        averaging = None if self._world.size == 1 else trainer.averaging()
        if averaging is None:
            yield
            return
        self._norms = GradientNorms(averaging)
        with self._norms.measured():
            yield
        self._write()

    def after_iteration(self, iterations: int) -> None:
        """Read the norms of an iteration, and write a row at the end of a stretch.

        Args:
            iterations: Iterations completed.
        """
        if self._norms is None:
            return
        self._sums, self._iterations = self._sums + self._norms.take(), iterations
        if iterations % self._every == 0 or iterations == self._max_iterations:
            self._write()

    def _write(self) -> None:
        """Write the row of the stretch that ends now, unless no step was measured."""
        sums, self._sums = self._sums, NormSums()
        if sums.steps:
            means = {"own_square": sums.own / sums.steps, "average_square": sums.average / sums.steps}
            self._append(GradientRow(iteration=self._iterations, steps=sums.steps, **means))
