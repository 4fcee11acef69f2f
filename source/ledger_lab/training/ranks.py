"""A run in several processes: what they compare, agree on, measure, and how they share the held-out slots."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist

from ledger_lab.errors import UserError
from ledger_lab.ledger import GradientNorms, LearnerHashed, Outcomes, Row
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.panels import Panel
from ledger_lab.panels.starts import sum_of_starts
from ledger_lab.training.launch import World
from ledger_lab.training.runners import Trainer
from ledger_lab.training.runners.collectives import GradientAveraging
from ledger_lab.training.runners.process_group import ProcessGroup
from ledger_lab.training.runners.recorded_calls import replaced

if TYPE_CHECKING:
    from ledger_lab.panels.slots import HeldOutSlots


_EQUAL_AT_FIRST, _EQUAL_EVERY = 2, 50
"""Learners are compared after each of the first 2 iterations of an attempt, then after every 50th iteration."""


def compare_learners(
    group: ProcessGroup,
    iterations: int,
    earlier: int,
    trainer: Trainer,
    clock: PhaseClock,
    append: Callable[[Row], None],
) -> None:
    """Check after some iterations that the learners of all processes are equal, bit for bit.

    Args:
        group: The processes.
        iterations: Iterations completed.
        earlier: Iterations completed when this attempt began.
        trainer: The trainer of this process.
        clock: Counts the time as ``synchronize``.
        append: Writes the row with the hash of this process's learner.

    Raises:
        RanksDifferError: If learners differ; the error names the first difference.
    """
    if group.world.size == 1 or (iterations - earlier > _EQUAL_AT_FIRST and iterations % _EQUAL_EVERY):
        return

    def write_hash(sha256: str) -> None:
        append(LearnerHashed(sha256=sha256, iteration=iterations, wall_ns=clock.wall_ns()))

    with clock.window(Phase.SYNCHRONIZE):
        group.require_equal(trainer.state(), write_hash)


class Agreement(NamedTuple):
    """The vote of one process after an iteration, and the combined vote of all processes."""

    stopped: bool
    """Whether a health event ends the run. It takes precedence over a signal."""
    end_signal: signal.Signals | None
    """The signal that asks the run to end: of several signals, the signal with the largest number."""
    state_overdue: bool
    """Whether the first process finds the last saved state too old."""

    limit_passed: bool = False
    """Whether the first process finds the run's time used up. It takes precedence over a signal."""

    @property
    def ends(self) -> bool:
        """Whether the run ends."""
        return self.stopped or self.limit_passed or self.end_signal is not None


def agree_on_ending(group: ProcessGroup, mine: Agreement) -> Agreement:
    """Combine the votes of all processes in one collective.

    Args:
        group: The processes; all of them call this.
        mine: The vote of this process.

    Returns:
        The combined vote, equal in all processes: everything that any process voted for.
    """
    votes = [mine.stopped, mine.end_signal or 0, mine.state_overdue, mine.limit_passed]
    stopped, signum, state_overdue, limit_passed = group.largest(votes)
    ending = signal.Signals(signum) if signum else None
    return Agreement(bool(stopped), ending, bool(state_overdue), bool(limit_passed))


def require_same(group: ProcessGroup, mine: Mapping[str, Any]) -> None:
    """Refuse to start if the processes have different requests or different code.

    Args:
        group: The processes.
        mine: Request and code of this process as JSON values, by names that the user recognizes.

    Raises:
        UserError: If they differ between processes.
    """
    if group.world.size == 1:
        return
    asked = group.gather(dict(mine))
    for rank, other in enumerate(asked):
        for name in dict.fromkeys((*asked[0], *other)):
            here, there = (repr(each[name]) if name in each else "missing" for each in (asked[0], other))
            if here != there:
                raise UserError(
                    f"{name} is {here} on rank 0 ({group.hosts[0]}) and {there} on rank {rank} "
                    f"({group.hosts[rank]}): start all processes with the same request, code, packages and GPU model"
                )


def require_own_gpus(group: ProcessGroup, uuid: str | None) -> None:
    """Refuse to start if two processes use the same GPU.

    A process that sees one GPU can't tell whether it is the only process that sees this GPU.

    Args:
        group: The processes.
        uuid: UUID of the GPU of this process; ``None`` on a CPU.

    Raises:
        UserError: If two processes have the same GPU.
    """
    uuids = group.gather(uuid)
    for rank, other in enumerate(uuids):
        if other is not None and (first := uuids.index(other)) < rank:
            raise UserError(
                f"rank {first} and rank {rank} on {group.hosts[rank]} use the same GPU ({other}): start one process "
                "per GPU, or use --device cpu"
            )


def require_divisible(panel: Panel, processes: int) -> None:
    """Refuse a panel whose seeds cannot be divided equally among processes.

    Args:
        panel: The panel.
        processes: Number of processes.

    Raises:
        UserError: If the seeds cannot be divided equally; the message names numbers of processes that work.
    """
    seeds = len(panel.seeds)
    if seeds % processes:
        fitting = [n for n in range(1, seeds + 1) if seeds % n == 0]
        below, above = max(n for n in fitting if n < processes), min((n for n in fitting if n > processes), default=0)
        raise UserError(
            f"panel {panel.name}: its {seeds} seeds do not split over {processes} processes: start {below}"
            f"{f' or {above}' if above else ''}, or train with --no_eval"
        )


def share_of(panel: Panel, rank: int, processes: int) -> Panel:
    """Return the part of a panel that runs in a process: an equal part of the seeds of each cell.

    Args:
        panel: The panel; its seeds can be divided equally among the processes.
        rank: Rank of the process.
        processes: Number of processes.
    """
    per_cell = len(panel.seeds) // (len(panel.cells) if panel.fresh else 1)
    own = per_cell // processes
    firsts = range(rank * own, len(panel.seeds), per_cell)
    return replace(panel, seeds=tuple(seed for first in firsts for seed in panel.seeds[first : first + own]))


def gather_outcomes(
    slots: HeldOutSlots, group: ProcessGroup, panel: Panel
) -> tuple[Outcomes, str | None, dict[str, str] | None]:
    """Return the result of a panel whose episodes have ended in all processes.

    Args:
        slots: The slots of this process, with the episodes of its share.
        group: The processes; all of them call this.
        panel: The whole panel.

    Returns:
        The outcomes in the order of the panel; why they prove nothing, or ``None`` if they are valid; and hashes of
        what the episodes started with, by the name of the quantity.
    """
    (mine,) = slots.outcomes()
    own = {"outcomes": asdict(mine), "invalid": slots.invalid(mine), "starts": slots.starts(0)}
    shares = group.gather(own)
    invalid = next((share["invalid"] for share in shares if share["invalid"] is not None), None)
    outcomes = merged([Outcomes(**share["outcomes"]) for share in shares], panel.episodes)
    return outcomes, invalid, sum_of_starts([share["starts"] for share in shares])


def merged(shares: Sequence[Outcomes], episodes: Sequence[tuple[str, int]]) -> Outcomes:
    """Merge the outcomes of several processes.

    Args:
        shares: The outcomes of each process.
        episodes: Cell and seed of every episode, in the order of the result.
    """
    names = [column.name for column in fields(Outcomes)]
    rows = {
        (row[0], row[1]): row for share in shares for row in zip(*(getattr(share, name) for name in names), strict=True)
    }
    columns = zip(*(rows[episode] for episode in episodes), strict=True)
    return Outcomes(**{name: list(column) for name, column in zip(names, columns, strict=True)})


_MOST_ROWS = 60
"""Largest number of rows per process and training: 20 for each third of it."""
_LARGEST = 1e30
"""Largest squared norm that counts. With mixed precision, a library skips steps whose gradients overflow."""


class GradientWatch:
    """Measures the gradients of a training in several processes; in a single process, there is nothing to compare.

    The difference of a gradient's norms before and after the processes average it is the noise of the gradient
    (:mod:`ledger_lab.reports.ranks`). The libraries clip only the average, so clipping changes neither norm.

    It adds two norms to each collective that averages gradients, and no collective. The norms stay on the device until
    the end of the iteration.
    """

    def __init__(self, world: World, max_iterations: int, append: Callable[[Row], None]) -> None:
        """Set it up.

        Args:
            world: The processes.
            max_iterations: Iterations of the training.
            append: Writes a row into the journal of this process.
        """
        self._world, self._max_iterations, self._append = world, max_iterations, append
        self._every = max(1, math.ceil(max_iterations / _MOST_ROWS))
        self._iterations = 0
        self._averaging: GradientAveraging | None = None
        self._averages = False
        """Whether the library averages gradients at the moment: it has other collectives, too."""
        self._steps = 0
        """Gradient steps of this iteration."""
        self._norms: list[tuple[int, torch.Tensor, torch.Tensor]] = []
        """Of each tensor: index of its step, and norms before and after the collective, which adds up all processes."""
        self._counted, self._squares = 0, torch.zeros(2, dtype=torch.float64)
        """Steps of this stretch that count, and sums of the squared norms of own and average gradients."""

    @contextmanager
    def measuring(self, trainer: Trainer) -> Iterator[None]:
        """Measure the gradients of a trainer inside the context, if its library is known to average them.

        A training that ends early, ends within a stretch. The row of this shorter stretch is written at the end.

        Args:
            trainer: The trainer.
        """
        self._averaging = None if self._world.size == 1 else trainer.averaging()
        if self._averaging is None:
            yield
            return
        with ExitStack() as stack:
            stack.enter_context(replaced(dist, all_reduce=self._observed(dist.all_reduce)))
            for place, (owner, name) in enumerate(self._averaging.calls):
                stack.enter_context(replaced(owner, **{name: self._averaged(getattr(owner, name), first=not place)}))
            yield
        self._write()

    def after_iteration(self, iterations: int) -> None:
        """Read the norms of an iteration, which waits for the device, and write a row at the end of a stretch.

        Args:
            iterations: Iterations completed.
        """
        self._iterations = iterations
        if self._norms:
            step_of, *norms = zip(*self._norms, strict=True)
            found = torch.stack([torch.stack(each) for each in norms]).double().cpu()
            found[1] /= dist.get_world_size()
            squares = torch.zeros(2, self._steps, dtype=torch.float64)
            squares.index_add_(1, torch.tensor(step_of), found.square())
            counts = (squares <= _LARGEST).all(dim=0)  # false for NaN
            self._counted += int(counts.sum())
            self._squares += squares[:, counts].sum(dim=1)
            self._norms.clear()
            self._steps = 0
        if iterations % self._every == 0 or iterations == self._max_iterations:
            self._write()

    def _write(self) -> None:
        """Write the row of the stretch that ends now, unless no step was measured."""
        if self._counted:
            own, average = (self._squares / self._counted).tolist()
            means = {"own_square": own, "average_square": average}
            self._append(GradientNorms(iteration=self._iterations, steps=self._counted, **means))
            self._counted = 0
            self._squares.zero_()

    def _observed(self, all_reduce: Callable[..., Any]) -> Callable[..., Any]:
        """Return the collective with a norm before and after it."""

        def call(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
            if not self._averages:
                return all_reduce(tensor, *args, **kwargs)
            own = self._norm(tensor)
            result = all_reduce(tensor, *args, **kwargs)
            self._norms.append((self._steps - 1, own, self._norm(tensor)))
            return result

        return call

    def _averaged(self, average: Callable[..., Any], *, first: bool) -> Callable[..., Any]:
        """Return a callable that averages gradients, whose collectives are observed."""

        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
            self._steps += first
            self._averages = True
            try:
                return average(*args, **kwargs)
            finally:
                self._averages = False

        return call

    def _norm(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return the norm of a gradient without its scale, and without waiting for the device."""
        assert self._averaging is not None
        norm, scaler = torch.linalg.vector_norm(gradient), self._averaging.scaler
        if scaler is None or not scaler.is_enabled():
            return norm
        return norm / scaler.scale(torch.ones_like(norm))
