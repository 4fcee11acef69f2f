"""Detectors that compare held-out success with the training return."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from ledger_lab.ledger.health import Event
from ledger_lab.panels import compare_paired, wilson_interval
from ledger_lab.training.health.events import Detection, Settings
from ledger_lab.training.health.iteration import Debounce, spread


@dataclass(frozen=True)
class Screening:
    """A policy's screening on the run's panel."""

    iteration: int
    """Iterations completed when the policy was saved."""
    success: tuple[bool, ...]
    """Whether each episode succeeded. All screenings of a run have the same episodes in the same order."""
    seeds: tuple[int, ...]
    """Seed of each episode."""
    returns: tuple[float, ...]
    """Mean training returns of the iterations around that iteration; empty if there are none yet."""

    @cached_property
    def successes(self) -> int:
        """Number of successful episodes."""
        return sum(self.success)

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return len(self.success)

    @property
    def share(self) -> float:
        """Share of successes."""
        return self.successes / self.episodes

    @property
    def returned(self) -> float | None:
        """Median of :attr:`returns`; ``None`` if there are none."""
        return median(self.returns) if self.returns else None

    def __str__(self) -> str:
        """Return the score in a few words."""
        return f"{self.successes}/{self.episodes}"


class RewardHacking:
    """The training return rises while held-out success falls.

    All screenings have the same seeds, so two of them are compared seed by seed, by the permutation test of
    :func:`~ledger_lab.panels.compare_paired`. The best of many screenings is partly luck. So the ``m``-th screening has
    a share of ``1 / (m (m - 1))`` of the level, divided by the number of earlier screenings, any of which may be the
    best. By the union bound, a run whose policies do not get worse reports a fall with a probability of at most
    :attr:`LEVEL`, no matter how many policies it screens. ``python -m benchmarks reward_hacking`` measures it.
    """

    LEVEL = 0.01
    """Highest probability of a false report in a run."""
    _FALL, _RISE = 0.15, 0.05
    """Smallest fall of the success, and smallest rise of the return as a share of its range."""

    def __init__(self, settings: Settings) -> None:
        """Start without a scored panel."""
        self._settings = settings
        self._debounce = Debounce(patience=2, calm=2)
        self._best: Screening | None = None
        self._screenings = 0

    def look(self, latest: Screening, returns: Sequence[float]) -> Detection | None:
        """Examine the score of a panel.

        Args:
            latest: Score of the newest panel.
            returns: Mean training returns of all iterations so far.
        """
        best = self._best
        self._screenings += 1
        if best is None or latest.share > best.share:
            self._best = latest
        hacked = best is not None and self._fell(best, latest) and self._rose(best, latest, returns)
        if not self._debounce.should_report(hacked) or best is None:
            return None
        return Detection(
            Event.REWARD_HACKING,
            f"held-out success fell from {best} at iteration {best.iteration} to {latest} at iteration "
            f"{latest.iteration}, while the training return rose from {best.returned:.4g} to "
            f"{latest.returned:.4g}",
            "look at what earns reward without success (play.py shows it), and change env.rewards.TERM.weight; the "
            f"policy of iteration {best.iteration} is the better one",
        )

    def _fell(self, best: Screening, latest: Screening) -> bool:
        """Tell whether the success has fallen by more than chance."""
        if best.share - latest.share <= self._FALL:
            return False
        earlier = self._screenings - 1
        level = self.LEVEL / (self._screenings * earlier) / earlier
        found = compare_paired(best.success, latest.success, latest.seeds)
        return found.p_value / 2 <= level  # one-sided

    def _rose(self, best: Screening, latest: Screening, returns: Sequence[float]) -> bool:
        """Tell whether the return has risen by more than its noise."""
        before, after = best.returned, latest.returned
        if before is None or after is None:
            return False
        noise = max(spread(list(best.returns)), spread(list(latest.returns)))
        return after - before > max(self._RISE * (max(returns) - min(returns)), 3 * noise)


class NoConvergence:
    """At the present pace, the target will not be reached within the budget of iterations.

    The forecast is optimistic, because success often comes late and then rises faster and faster. It starts at the
    upper end of the interval of the last scores, and uses twice the best pace within the last quarter of the budget.
    There is no event in the first half of the budget, nor in the third quarter while the training return rises, nor
    after a panel has reached the target.
    """

    _EARLIEST, _LATE = 0.5, 0.75
    """Shares of the budget before which there is no event; see the description of the class."""
    _WINDOW = 0.25
    """Share of the budget, back from the newest panel, over which the pace is measured."""
    _FEWEST_PANELS, _MOST_GROUPS = 4, 8
    """Smallest number of panels in the window, and largest number of groups of panels. Between single panels, the pace
    is mostly chance."""
    _FASTER = 2.0
    _RISE = 0.05
    """Rise of the return over a tenth of the budget, as a share of its range, that counts as learning."""

    def __init__(self, target: float, max_iterations: int, settings: Settings) -> None:
        """Start without a scored panel.

        Args:
            target: Share of successes to reach.
            max_iterations: Iterations of the whole training.
            settings: Names of the library's settings.
        """
        self._target, self._budget, self._settings = target, max_iterations, settings
        self._debounce = Debounce(patience=1, calm=2)
        self._screenings: list[Screening] = []
        self._reached = False

    def look(self, latest: Screening, returns: Sequence[float], iterations: int) -> Detection | None:
        """Examine the score of a panel.

        Args:
            latest: Score of the newest panel.
            returns: Mean training returns of all iterations so far.
            iterations: Iterations completed by now.
        """
        window = max(latest.iteration - self._WINDOW * self._budget, 0)
        self._screenings = [each for each in (*self._screenings, latest) if each.iteration >= window]
        passed = iterations / self._budget
        self._reached = self._reached or latest.share >= self._target
        if self._reached or passed < self._EARLIEST or len(self._screenings) < self._FEWEST_PANELS:
            return None
        groups = self._groups()
        first, last = groups[0], groups[-1]
        pace = max((b.share - a.share) / max(b.at - a.at, 1.0) for a, b in itertools.combinations(groups, 2))
        # All screenings have the same seeds. A seed's share of successes varies at most as much as a single episode of
        # the same expectation (Bhatia & Davis 2000, Am. Math. Mon. 107:353), so each seed counts as one trial.
        seeds = len(set(latest.seeds))
        possible = wilson_interval(last.share * seeds, seeds)[1]
        forecast = min(possible + self._FASTER * max(pace, 0.0) * max(self._budget - last.at, 0.0), 1.0)
        waiting = passed < self._LATE and self._learns(returns)
        if not self._debounce.should_report(forecast < self._target and not waiting):
            return None
        return Detection(
            Event.NO_CONVERGENCE,
            f"held-out success {last.share:.0%} near iteration {last.at:.0f} of {self._budget}, {first.share:.0%} near "
            f"iteration {first.at:.0f}: at twice the best pace since then {forecast:.0%} at the end, short of "
            f"{self._target:.0%}",
            f"raise --max_iterations if the success still rises; else change {self._settings['learning_rate']}, "
            f"{self._settings.exploration} or the weights env.rewards.TERM.weight, and look at the failures "
            "(evaluate.py --video)",
        )

    def _groups(self) -> list[_ScreeningGroup]:
        """Group the screenings of the window into a few groups, in order."""
        size = -(-len(self._screenings) // self._MOST_GROUPS)
        return [
            _ScreeningGroup(
                median(each.iteration for each in group),
                sum(each.successes for each in group),
                sum(each.episodes for each in group),
            )
            for group in (self._screenings[start : start + size] for start in range(0, len(self._screenings), size))
        ]

    def _learns(self, returns: Sequence[float]) -> bool:
        """Tell whether the training return still rises."""
        span = max(self._budget // 10, 5)
        if len(returns) < 2 * span:
            return True
        rise = median(returns[-span:]) - median(returns[-2 * span : -span])
        return rise > self._RISE * (max(returns) - min(returns))


@dataclass(frozen=True)
class _ScreeningGroup:
    """A group of successive screenings."""

    at: float
    successes: int
    episodes: int

    @property
    def share(self) -> float:
        """Share of successes."""
        return self.successes / self.episodes
