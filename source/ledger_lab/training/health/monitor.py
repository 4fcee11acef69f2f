"""The monitor of a training, with one method per source of data, and what is done about its health events."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import psutil
from rich.console import Console

from ledger_lab.errors import first_line
from ledger_lab.ledger import Health, PanelResult, Status
from ledger_lab.ledger.endings import status_of
from ledger_lab.ledger.rows import Event
from ledger_lab.training.health.detector import Detection, Iteration, Settings
from ledger_lab.training.health.held_out import Check, NoConvergence, RewardHacking, TerminationTakeover
from ledger_lab.training.health.learning import (
    EntropyCollapse,
    GradientSpikes,
    KlTooHigh,
    KlTooLow,
    NonFinite,
    ValueLossExplosion,
)
from ledger_lab.training.health.resources import MemoryGrowth, Slowdown

_AROUND = 5
"""Number of iterations around a checkpoint whose mean returns count as the return of its policy."""


class HealthMonitor:
    """Watches training from its first iteration, or from the iteration at which it resumed.

    It takes some tens of microseconds per iteration, and needs neither torch nor a simulation.
    """

    def __init__(
        self,
        max_iterations: int,
        target_success: float,
        settings: Settings | None = None,
        time_outs: Collection[str] = (),
        episode_iterations: int = 1,
    ) -> None:
        """Start without data.

        Args:
            max_iterations: Iterations of the whole training.
            target_success: Share of held-out successes to reach.
            settings: Names of the library's settings, for the advice.
            time_outs: Names of the terminations that are time-outs.
            episode_iterations: Iterations that the longest training episode takes.
        """
        settings = settings or Settings()
        self._target = target_success
        self._non_finite = NonFinite(settings)
        self._takeover = TerminationTakeover(settings, time_outs, episode_iterations)
        self._detectors = (
            *(ValueLossExplosion(settings), GradientSpikes(settings), Slowdown(settings)),
            MemoryGrowth(Event.HOST_MEMORY_GROWTH, settings, max_iterations),
            MemoryGrowth(Event.DEVICE_MEMORY_GROWTH, settings, max_iterations),
            self._takeover,
            *(EntropyCollapse(settings), KlTooHigh(settings), KlTooLow(settings)),
        )
        self._hacking = RewardHacking(settings)
        self._convergence = NoConvergence(target_success, max_iterations, settings)
        self._learned = False
        self._iterations = 0
        self._returns: list[float] = []
        self._returned_at: list[int] = []

    def on_iteration(self, seen: Iteration) -> list[Detection]:
        """Examine an iteration.

        Args:
            seen: The iteration.

        Returns:
            The detections, usually none.
        """
        self._iterations = seen.iterations
        found = [self._non_finite.look(seen)]
        finite = {name: value for name, value in seen.figures.items() if math.isfinite(value)}
        seen = replace(seen, figures=finite, learned=self._learned)
        if "mean_return" in finite:
            self._returns.append(finite["mean_return"])
            self._returned_at.append(seen.iterations)
        found += [detector.look(seen) for detector in self._detectors]
        return [each for each in found if each is not None]

    def on_failure(self, reason: str) -> list[Detection]:
        """Handle the error of a library that found numbers that are not finite inside an iteration.

        Args:
            reason: The error in one line.

        Returns:
            The detection, unless it was reported before.
        """
        found = self._non_finite.failed(reason)
        return [] if found is None else [found]

    def on_panel(self, result: PanelResult, iteration: int) -> list[Detection]:
        """Examine a held-out score.

        Args:
            result: The score. Only checks count: proofs have other seeds, and invalid scores prove nothing.
            iteration: Iterations completed when its checkpoint was saved.

        Returns:
            The detections, usually none.
        """
        if result.purpose != "check" or result.invalid is not None or not result.outcomes.episodes:
            return []
        until = bisect_right(self._returned_at, iteration)
        around = tuple(self._returns[max(until - _AROUND, 0) : until])
        check = Check(iteration, tuple(result.outcomes.success), tuple(result.outcomes.seed), around)
        self._learned = check.share >= self._target
        self._takeover.checks.append(check)
        found = [
            self._hacking.look(check, self._returns),
            self._convergence.look(check, self._returns, self._iterations),
        ]
        return [each for each in found if each is not None]


class HealthEvent(Exception):  # noqa: N818 - the ledger shows this name before the reason
    """A health event that is listed in ``--stop_on`` ended the run."""


class HealthWatch:
    """Passes the figures of a training to the health monitor, and reports its findings."""

    def __init__(
        self,
        monitor: HealthMonitor,
        stop_on: Sequence[str],
        append: Callable[[Health], None],
        wall_ns: Callable[[], int],
        device_memory_bytes: Callable[[], int | None],
        console: Console,
    ) -> None:
        """Begin with nothing found.

        Args:
            monitor: Finds health events.
            stop_on: Events that end the run.
            append: Writes a row.
            wall_ns: Returns the age of the attempt [ns].
            device_memory_bytes: Returns the device memory that the process holds; ``None`` without an accelerator.
            console: Where events are printed.
        """
        self._monitor, self._stop_on = monitor, frozenset(stop_on)
        self._append, self._wall_ns, self._device_memory_bytes = append, wall_ns, device_memory_bytes
        self._console = console
        self._process = psutil.Process()
        self._iterations = 0
        self.stopped: HealthEvent | None = None
        """The event that ends the run, with its evidence."""

    def on_iteration(
        self,
        iterations: int,
        env_steps: int,
        figures: Mapping[str, float],
        phase_ns: Mapping[str, int],
        endings: Mapping[str, int] | None = None,
    ) -> None:
        """Check an iteration.

        Args:
            iterations: Iterations completed.
            env_steps: Environment steps of this iteration, over all processes.
            figures: Figures of the training, by the names of :data:`ledger_lab.ledger.FIGURES`.
            phase_ns: Nanoseconds per phase.
            endings: Training episodes that each termination ended, over all processes.
        """
        self._iterations = iterations
        seen = Iteration(
            iterations=iterations,
            env_steps=env_steps,
            figures=figures,
            phase_ns=phase_ns,
            host_memory_bytes=self._process.memory_info().rss,
            device_memory_bytes=self._device_memory_bytes(),
            endings=endings,
        )
        self._report(self._monitor.on_iteration(seen))

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Within the context, also report numbers that are not finite if a library finds them and raises an error."""
        try:
            yield
        except Exception as error:
            if status_of(error) is Status.NON_FINITE:
                self._report(self._monitor.on_failure(first_line(error)))
            raise

    def on_panel(self, result: PanelResult, iteration: int) -> None:
        """Check a held-out score.

        Args:
            result: The score.
            iteration: Iterations completed when its checkpoint was saved.
        """
        self._report(self._monitor.on_panel(result, iteration))

    def _report(self, detections: Sequence[Detection]) -> None:
        """Write detections into the journal, print them, and remember the first one that ends the run."""
        for found in detections:
            stops = found.event in self._stop_on
            self._append(
                Health(
                    event=str(found.event),
                    iteration=self._iterations,
                    wall_ns=self._wall_ns(),
                    evidence=found.evidence,
                    advice=found.advice,
                    stops=stops,
                )
            )
            self._console.print(
                f"{found.event} at iteration {self._iterations}: {found.evidence}; {found.advice}"
                f"{' (the run ends here: --stop_on)' if stops else ''}",
                style="red" if stops else "yellow",
                markup=False,
                soft_wrap=True,
            )
            if stops and self.stopped is None:
                self.stopped = HealthEvent(f"{found.event}: {found.evidence}")
