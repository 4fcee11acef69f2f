"""What a profile measures of a library's training loop, iteration by iteration, and the table of its parts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from rich.table import Table
from rich.text import Text

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.phases import Phase
from ledger_lab.ledger.meters.probes import Part, Probes, Samples
from ledger_lab.training.runners import Trainer
from ledger_lab.units import percent

ITERATION, CHECKPOINT = "iteration", "checkpoint"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Number of iterations of each stage."""

    warm_up: int
    pairs: int
    """Pairs of a plain iteration, with only a clock at both ends, and an iteration whose parts are timed. They
    alternate, so that a machine that becomes slower affects both."""
    traced: int
    """Iterations that torch's profiler records, after one warm-up iteration; 0 for none."""

    @property
    def total(self) -> int:
        """Number of all iterations."""
        return self.measured_until + (self.traced + 1 if self.traced else 0)

    @property
    def measured_until(self) -> int:
        """Number of iterations until the end of the last pair."""
        return self.warm_up + 2 * self.pairs

    def is_plain(self, iteration: int) -> bool:
        """Tell whether an iteration, counted from 1, is the first one of a pair."""
        return self.warm_up < iteration <= self.measured_until and (iteration - self.warm_up) % 2 == 1

    def is_probed(self, iteration: int) -> bool:
        """Tell whether an iteration, counted from 1, is the second one of a pair."""
        return self.warm_up < iteration <= self.measured_until and not self.is_plain(iteration)


class Ranges:
    """Marks a clock's windows while it is active; see :meth:`ledger_lab.ledger.meters.phases.PhaseClock.announce`."""

    def __init__(self, *, nvtx: bool) -> None:
        """Start inactive.

        Args:
            nvtx: Whether to mark them for Nsight Systems, rather than for torch's profiler.

        Raises:
            UserError: If this build of torch does not support it.
        """
        self.active = False
        self._range: Callable[[str], AbstractContextManager[Any]] = torch.profiler.record_function
        self._open: list[ExitStack] = []
        if nvtx:
            self._range = torch.cuda.nvtx.range
            try:
                torch.cuda.nvtx.mark("LedgerLab")
            except RuntimeError as error:
                raise UserError("--nsys: this build of torch has no NVTX ranges: install one with CUDA") from error

    def opened(self, phase: Phase) -> None:
        """Start a range."""
        self._open.append(window := ExitStack())
        if self.active:
            window.enter_context(self._range(str(phase)))

    def closed(self) -> None:
        """End the innermost range, if it was marked."""
        self._open.pop().close()


@dataclass
class Stages:
    """Observer of a training that switches the measurement from iteration to iteration."""

    schedule: Schedule
    probes: Probes
    ranges: Ranges
    synchronize: Callable[[], None] | None
    on_advance: Callable[[int], None]
    """Called with the number of completed iterations."""
    plain_ns: list[int] = field(default_factory=list)
    """Time of each plain iteration [ns]."""
    probed_ns: list[int] = field(default_factory=list)
    """Time of each probed iteration [ns]."""
    profiler: torch.profiler.profile | None = None
    """Torch's profiler, once it has recorded something."""

    def train(self, trainer: Trainer, parts: Sequence[Part]) -> None:
        """Run the loop to its end.

        Args:
            trainer: The loop; its observer is this object.
            parts: Parts that are timed in the probed iterations.
        """
        self._trainer, self._parts = trainer, parts
        self._began_ns = self._now_ns()
        try:
            trainer.train(self.on_iteration)
        finally:
            self.probes.detach()

    def on_iteration(self, iterations: int, figures: Mapping[str, float]) -> bool:
        """End the measurement of one iteration, and start that of the next."""
        now_ns = self._now_ns()
        schedule = self.schedule
        if schedule.is_plain(iterations):
            self.plain_ns.append(now_ns - self._began_ns)
        elif schedule.is_probed(iterations):
            self.probes.close()
            self.probed_ns.append(now_ns - self._began_ns)
            self.probes.detach()
            with self.probes.window(CHECKPOINT):
                self._trainer.save()
        if schedule.traced and iterations >= schedule.measured_until:
            self._trace(iterations - schedule.measured_until)
        self.on_advance(iterations)
        if schedule.is_probed(iterations + 1):
            for part in self._parts:
                self.probes.attach(part)
            self.probes.open(ITERATION)
        self._began_ns = self._now_ns()
        return True

    def _trace(self, done: int) -> None:
        """Start torch's profiler, advance it to the next iteration, or stop it.

        Args:
            done: Iterations since the end of the last pair.
        """
        if self.profiler is None:
            self.ranges.active = True
            self.profiler = torch.profiler.profile(
                schedule=torch.profiler.schedule(wait=0, warmup=1, active=self.schedule.traced, repeat=1)
            )
            self.profiler.start()
            return
        self.profiler.step()
        if done == self.schedule.traced + 1:
            self.profiler.stop()
            self.ranges.active = False

    def _now_ns(self) -> int:
        """Return the time when all queued work is done."""
        if self.synchronize is not None:
            self.synchronize()
        return time.perf_counter_ns()


@dataclass(frozen=True, kw_only=True)
class Component:
    """Times of one component, including its timed inner parts."""

    path: tuple[str, ...]
    """Names of the components around it, the outermost first, then its own name."""
    median_us: float
    p10_us: float
    p90_us: float
    n: int
    """Number of calls that were timed."""
    calls_per_iteration: float
    """Calls per iteration of a training."""
    share: float
    """Share of an iteration's time."""
    own_share: float
    """The same without its timed inner parts. These shares sum to 1 over an iteration and all its parts."""


def components(samples: Sequence[Samples], iterations: int, checkpoint_rate: float) -> list[Component]:
    """Compute the figures of each component.

    Args:
        samples: Measured samples, including those of the iteration.
        iterations: Number of measured iterations.
        checkpoint_rate: Checkpoints per iteration of a training; they were measured after iterations.
    """
    (whole,) = [each for each in samples if each.path == (ITERATION,)]
    iteration_us = sum(whole.total_ns) / 1e3 / iterations
    found = []
    for each in samples:
        rate = len(each.total_ns) / iterations
        if each.path[0] == CHECKPOINT:  # one is saved after each measured iteration
            rate *= checkpoint_rate
        total_us, own_us = (statistics.fmean(times) / 1e3 * rate for times in (each.total_ns, each.own_ns))
        found.append(
            Component(
                path=each.path,
                median_us=each.percentile_us(50),
                p10_us=each.percentile_us(10),
                p90_us=each.percentile_us(90),
                n=len(each.total_ns),
                calls_per_iteration=rate,
                share=total_us / iteration_us,
                own_share=own_us / iteration_us,
            )
        )
    return found


def component_table(found: Sequence[Component]) -> Table:
    """Print the components, each with its inner parts below it."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("component", no_wrap=True)
    for name in ("median µs", "p10", "p90", "n", "calls/iteration", "share", "own share"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in found:
        table.add_row(
            Text("  " * (len(each.path) - 1) + each.path[-1]),
            *(_microseconds(value) for value in (each.median_us, each.p10_us, each.p90_us)),
            str(each.n),
            f"{each.calls_per_iteration:.3g}",
            percent(each.share),
            percent(each.own_share),
            style="bold" if len(each.path) == 1 else None,
        )
    return table


def _microseconds(value: float) -> str:
    """Return a time with its significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
