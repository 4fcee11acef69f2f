"""Detectors that compare held-out success with the training return."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ledger_lab.meters.health.events import Event, Finding, Settings
from ledger_lab.meters.health.seen import Spell, spread
from ledger_lab.panels import wilson_interval


@dataclass(frozen=True)
class Exam:
    """A policy's screening on the run's panel."""

    iteration: int
    """Iterations completed when the policy was saved."""
    successes: int
    episodes: int
    returns: tuple[float, ...]
    """Mean training returns of the iterations around that iteration; empty if there are none yet."""

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
    """The policy gets better at its reward, and worse at its task."""

    _DEVIATIONS = 4.0
    """Of the difference of two shares. The best of many panel scores is partly luck, so 2 would be too few."""
    _FALL, _RISE = 0.15, 0.05
    """Least fall of the success, and least rise of the return as a share of its whole range."""

    def __init__(self, settings: Settings) -> None:
        """Begin with no scored panel."""
        self._settings = settings
        self._spell = Spell(patience=2, calm=2)
        self._best: Exam | None = None

    def look(self, exam: Exam, returns: Sequence[float]) -> Finding | None:
        """Take the score of a panel.

        Args:
            exam: Score of the newest panel.
            returns: Mean training returns of all iterations so far.
        """
        best = self._best
        if best is None or exam.share > best.share:
            self._best = exam
        if not self._spell.begins(best is not None and self._fell(best, exam) and self._rose(best, exam, returns)):
            return None
        assert best is not None
        return Finding(
            Event.REWARD_HACKING,
            f"held-out success fell from {best} at iteration {best.iteration} to {exam} at iteration {exam.iteration}, "
            f"while the training return rose from {best.returned:.4g} to {exam.returned:.4g}",
            "look at what earns reward without success (play.py shows it), and change env.rewards.TERM.weight; the "
            f"policy of iteration {best.iteration} is the better one",
        )

    def _fell(self, best: Exam, exam: Exam) -> bool:
        """Tell whether the success is lower than it was by more than chance."""
        pooled = (best.successes + exam.successes) / (best.episodes + exam.episodes)
        deviation = math.sqrt(pooled * (1 - pooled) * (1 / best.episodes + 1 / exam.episodes))
        return best.share - exam.share > max(self._FALL, self._DEVIATIONS * deviation)

    def _rose(self, best: Exam, exam: Exam, returns: Sequence[float]) -> bool:
        """Tell whether the return is higher than it was by more than its noise."""
        before, after = best.returned, exam.returned
        if before is None or after is None:
            return False
        noise = max(spread(list(best.returns)), spread(list(exam.returns)))
        return after - before > max(self._RISE * (max(returns) - min(returns)), 3 * noise)


class NoConvergence:
    """The budget ends before the target comes.

    The forecast is optimistic, because success often comes late and then ever faster. It starts at the upper end of the
    interval of the last scores. It takes twice the best pace between two moments of the last quarter of the budget.
    The check is silent in the first half of the budget. In the third quarter it is silent while the training return
    rises. Once a panel has reached the target, it stays silent.
    """

    _EARLIEST, _LATE = 0.5, 0.75
    """Shares of the budget."""
    _WINDOW = 0.25
    """Share of the budget, back from the newest panel, over which the pace is measured."""
    _FEWEST, _MOMENTS = 4, 8
    """Fewest panels in the window, and most moments they are grouped into: the pace between neighbours is all luck."""
    _FASTER = 2.0
    _RISE = 0.05
    """Rise of the return over a tenth of the budget, as a share of its range, that counts as learning."""

    def __init__(self, target: float, max_iterations: int, settings: Settings) -> None:
        """Begin with no scored panel.

        Args:
            target: Share of successes to reach.
            max_iterations: Iterations of the whole training.
            settings: Names of the library's settings.
        """
        self._target, self._budget, self._settings = target, max_iterations, settings
        self._spell = Spell(patience=1, calm=2)
        self._exams: list[Exam] = []
        self._reached = False

    def look(self, exam: Exam, returns: Sequence[float], iterations: int) -> Finding | None:
        """Take the score of a panel.

        Args:
            exam: Score of the newest panel.
            returns: Mean training returns of all iterations so far.
            iterations: Iterations completed by now.
        """
        window = max(exam.iteration - self._WINDOW * self._budget, 0)
        self._exams = [each for each in (*self._exams, exam) if each.iteration >= window]
        passed = iterations / self._budget
        self._reached = self._reached or exam.share >= self._target
        if self._reached or passed < self._EARLIEST or len(self._exams) < self._FEWEST:
            return None
        moments = self._moments()
        first, last = moments[0], moments[-1]
        pace = max((b.share - a.share) / max(b.at - a.at, 1.0) for a, b in itertools.combinations(moments, 2))
        possible = wilson_interval(last.successes, last.episodes)[1]
        forecast = min(possible + self._FASTER * max(pace, 0.0) * max(self._budget - last.at, 0.0), 1.0)
        waiting = passed < self._LATE and self._learns(returns)
        if not self._spell.begins(forecast < self._target and not waiting):
            return None
        return Finding(
            Event.NO_CONVERGENCE,
            f"held-out success {last.share:.0%} near iteration {last.at:.0f} of {self._budget}, {first.share:.0%} near "
            f"iteration {first.at:.0f}: at twice the best pace since then {forecast:.0%} at the end, short of "
            f"{self._target:.0%}",
            f"raise --max_iterations if the success still rises; else change {self._settings['learning_rate']}, "
            f"{self._settings['entropy_coef']} or the weights env.rewards.TERM.weight, and look at the failures "
            "(evaluate.py --video)",
        )

    def _moments(self) -> list[_Moment]:
        """Gather the exams of the window into a few moments, in order."""
        size = -(-len(self._exams) // self._MOMENTS)
        return [
            _Moment(
                median(each.iteration for each in exams),
                sum(each.successes for each in exams),
                sum(each.episodes for each in exams),
            )
            for exams in (self._exams[start : start + size] for start in range(0, len(self._exams), size))
        ]

    def _learns(self, returns: Sequence[float]) -> bool:
        """Tell whether the training return still rises."""
        span = max(self._budget // 10, 5)
        if len(returns) < 2 * span:
            return True
        rise = median(returns[-span:]) - median(returns[-2 * span : -span])
        return rise > self._RISE * (max(returns) - min(returns))


@dataclass(frozen=True)
class _Moment:
    """Some neighbouring exams."""

    at: float
    successes: int
    episodes: int

    @property
    def share(self) -> float:
        """Share of successes."""
        return self.successes / self.episodes
