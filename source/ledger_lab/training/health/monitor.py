"""The monitor of a training: all detectors, with one method per source of data."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import replace

from ledger_lab.ledger import PanelResult
from ledger_lab.training.health.detector import Detection, Iteration, Settings
from ledger_lab.training.health.held_out import NoConvergence, RewardHacking, Screening, TerminationTakeover
from ledger_lab.training.health.learning import (
    EntropyCollapse,
    GradientSpikes,
    KlTooHigh,
    KlTooLow,
    NonFinite,
    ValueLossExplosion,
)
from ledger_lab.training.health.resources import DeviceMemoryGrowth, HostMemoryGrowth, Slowdown

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
            *(HostMemoryGrowth(settings, max_iterations), DeviceMemoryGrowth(settings, max_iterations), self._takeover),
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
            result: The score. Only screenings count: confirmations have other seeds, and invalid scores prove nothing.
            iteration: Iterations completed when its checkpoint was saved.

        Returns:
            The detections, usually none.
        """
        if result.purpose != "screening" or result.invalid is not None or not result.outcomes.episodes:
            return []
        until = bisect_right(self._returned_at, iteration)
        around = tuple(self._returns[max(until - _AROUND, 0) : until])
        screening = Screening(iteration, tuple(result.outcomes.success), tuple(result.outcomes.seed), around)
        self._learned = screening.share >= self._target
        self._takeover.screenings.append(screening)
        found = [
            self._hacking.look(screening, self._returns),
            self._convergence.look(screening, self._returns, self._iterations),
        ]
        return [each for each in found if each is not None]
