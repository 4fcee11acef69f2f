"""The stages of a profile of a library's training loop: iterations without timing of parts, and iterations with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger import CheckpointSaved
from ledger_lab.ledger.meters import Phase
from ledger_lab.ledger.meters.probes import Part, Probes
from ledger_lab.training.runners import Trainer

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
    """Marks a clock's windows while it is active; see :meth:`ledger_lab.ledger.meters.PhaseClock.announce`."""

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
    checkpoint: CheckpointSaved | None = None
    """The newest checkpoint that a stage saved."""
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
                self.checkpoint = self._trainer.save()
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
