"""Detectors that compare held-out success with the training return, or with the ends of training episodes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from ledger_lab.ledger.rows import Event
from ledger_lab.panels import compare_paired, wilson_interval
from ledger_lab.training.health.detector import Detection, Detector, Iteration, Settings, spread


@dataclass(frozen=True)
class Check:
    """A policy's check on the run's panel."""

    iteration: int
    """Iterations completed when the policy was saved."""
    success: tuple[bool, ...]
    """Whether each episode succeeded. All checks of a run have the same episodes in the same order."""
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


class RewardHacking(Detector):
    """The training return rises while held-out success falls.

    All checks have the same seeds, so two of them are compared seed by seed, by the permutation test of
    :func:`~ledger_lab.panels.compare_paired`. The best of many checks is partly luck. So the ``m``-th check has
    a share of ``1 / (m (m - 1))`` of the level, divided by the number of earlier checks, any of which may be the
    best. By the union bound, a run whose policies do not get worse reports a fall with a probability of at most
    :attr:`LEVEL`, no matter how many policies it checks. ``python -m benchmarks reward_hacking`` measures it.
    """

    event, patience, calm = Event.REWARD_HACKING, 2, 2

    LEVEL = 0.01
    """Highest probability of a false report in a run."""
    _FALL, _RISE = 0.15, 0.05
    """Smallest fall of the success, and smallest rise of the return as a share of its range."""

    def __init__(self, settings: Settings) -> None:
        """Start without a scored panel."""
        super().__init__(settings)
        self._best: Check | None = None
        self._checks = 0

    def look(self, latest: Check, returns: Sequence[float]) -> Detection | None:
        """Examine the score of a panel.

        Args:
            latest: Score of the newest panel.
            returns: Mean training returns of all iterations so far.
        """
        best = self._best
        self._checks += 1
        if best is None or latest.share > best.share:
            self._best = latest
        hacked = best is not None and self._fell(best, latest) and self._rose(best, latest, returns)
        if not self.is_due(hacked) or best is None:
            return None
        return self.detection(
            f"held-out success fell from {best} at iteration {best.iteration} to {latest} at iteration "
            f"{latest.iteration}, while the training return rose from {best.returned:.4g} to "
            f"{latest.returned:.4g}",
            "look at what earns reward without success (play.py shows it), and change env.rewards.TERM.weight; the "
            f"policy of iteration {best.iteration} is the better one",
        )

    def _fell(self, best: Check, latest: Check) -> bool:
        """Tell whether the success has fallen by more than chance."""
        if best.share - latest.share <= self._FALL:
            return False
        earlier = self._checks - 1
        level = self.LEVEL / (self._checks * earlier) / earlier
        found = compare_paired(best.success, latest.success, latest.seeds)
        return found.p_value / 2 <= level  # one-sided

    def _rose(self, best: Check, latest: Check, returns: Sequence[float]) -> bool:
        """Tell whether the return has risen by more than its noise."""
        before, after = best.returned, latest.returned
        if before is None or after is None:
            return False
        noise = max(spread(list(best.returns)), spread(list(latest.returns)))
        return after - before > max(self._RISE * (max(returns) - min(returns)), 3 * noise)


class NoConvergence(Detector):
    """At the present pace, the target will not be reached within the budget of iterations.

    The forecast is optimistic, because success often comes late and then rises faster and faster. It starts at the
    upper end of the interval of the last scores, and uses twice the best pace within the last quarter of the budget.
    There is no event in the first half of the budget, nor in the third quarter while the training return rises, nor
    after a panel has reached the target.
    """

    event, calm = Event.NO_CONVERGENCE, 2

    _EARLIEST, _LATE = 0.5, 0.75
    """Shares of the budget before which there is no event; see the description of the class."""
    _WINDOW = 0.25
    """Share of the budget, back from the newest panel, over which the pace is measured."""
    _FEWEST_PANELS, _MOST_GROUPS = 4, 8
    """Smallest number of panels in the window, and largest number of groups of panels."""
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
        super().__init__(settings)
        self._target, self._budget = target, max_iterations
        self._checks: list[Check] = []
        self._reached = False

    def look(self, latest: Check, returns: Sequence[float], iterations: int) -> Detection | None:
        """Examine the score of a panel.

        Args:
            latest: Score of the newest panel.
            returns: Mean training returns of all iterations so far.
            iterations: Iterations completed by now.
        """
        window = max(latest.iteration - self._WINDOW * self._budget, 0)
        self._checks = [each for each in (*self._checks, latest) if each.iteration >= window]
        passed = iterations / self._budget
        self._reached = self._reached or latest.share >= self._target
        if self._reached or passed < self._EARLIEST or len(self._checks) < self._FEWEST_PANELS:
            return None
        # Between single panels, the pace is mostly chance, so it is measured between groups of successive panels.
        size = -(-len(self._checks) // self._MOST_GROUPS)
        groups = [self._checks[start : start + size] for start in range(0, len(self._checks), size)]
        at = [median(each.iteration for each in group) for group in groups]
        share = [sum(each.successes for each in group) / sum(each.episodes for each in group) for group in groups]
        pairs = itertools.combinations(range(len(groups)), 2)
        pace = max((share[b] - share[a]) / max(at[b] - at[a], 1.0) for a, b in pairs)
        # All checks have the same seeds. A seed's share of successes varies at most as much as a single episode of
        # the same expectation (Bhatia & Davis 2000, Am. Math. Mon. 107:353), so each seed counts as one trial.
        seeds = len(set(latest.seeds))
        possible = wilson_interval(share[-1] * seeds, seeds)[1]
        forecast = min(possible + self._FASTER * max(pace, 0.0) * max(self._budget - at[-1], 0.0), 1.0)
        waiting = passed < self._LATE and self._learns(returns)
        if not self.is_due(forecast < self._target and not waiting):
            return None
        return self.detection(
            f"held-out success {share[-1]:.0%} near iteration {at[-1]:.0f} of {self._budget}, {share[0]:.0%} near "
            f"iteration {at[0]:.0f}: at twice the best pace since then {forecast:.0%} at the end, short of "
            f"{self._target:.0%}",
            f"raise --max_iterations if the success still rises; else change {self.settings['learning_rate']}, "
            f"{self.settings.exploration} or the weights env.rewards.TERM.weight, and look at the failures "
            "(evaluate.py --video)",
        )

    def _learns(self, returns: Sequence[float]) -> bool:
        """Tell whether the training return still rises."""
        span = max(self._budget // 10, 5)
        if len(returns) < 2 * span:
            return True
        rise = median(returns[-span:]) - median(returns[-2 * span : -span])
        return rise > self._RISE * (max(returns) - min(returns))


class TerminationTakeover(Detector):
    """One termination ends nearly all training episodes, and ended few before, while held-out success did not rise.

    Time-outs are no such terminations. A policy may have found that the end of an episode saves it a penalty, or that
    the simulation breaks in a way that earns reward.

    Episodes are counted in blocks. A block takes at least as long as the longest episode, so that each block has
    episodes of all lengths. The first block of a training is left out: libraries begin with episodes of random ages, so
    that time-outs are too frequent at first. The event needs two successive blocks, because a policy that learns may
    fall more often for a while.
    """

    event, patience, calm = Event.TERMINATION_TAKEOVER, 2, 2

    _MOST, _FEW = 0.9, 0.5
    """Share of the episodes from which a termination ends nearly all of them, and up to which it ends few."""
    _EPISODES = 100
    """Fewest episodes of a block: the standard deviation of a share of 0.9 is then 0.03."""
    _RISE = 0.05
    """Smallest rise of the held-out success that counts as learning."""

    def __init__(self, settings: Settings, time_outs: Collection[str], episode_iterations: int) -> None:
        """Start without an episode.

        Args:
            settings: Names of the library's settings.
            time_outs: Names of the terminations that are time-outs.
            episode_iterations: Iterations that the longest episode takes.
        """
        super().__init__(settings)
        self._time_outs, self._block_iterations = time_outs, episode_iterations
        self._endings: Counter[str] = Counter()
        self._iterations = 0
        self._warm = False
        self._least: dict[str, tuple[float, int, int]] = {}
        """Smallest share of a block's episodes that a termination ended, with the number of these episodes and the
        last iteration of the block, by termination."""
        self.checks: list[Check] = []
        """Checks so far; the monitor adds them."""

    def look(self, seen: Iteration) -> Detection | None:
        """Examine an iteration."""
        if seen.endings is None:
            return None
        self._endings.update(seen.endings)
        self._iterations += 1
        episodes = self._endings.total()
        if self._iterations < self._block_iterations or episodes < self._EPISODES:
            return None
        shares = {term: count / episodes for term, count in self._endings.items() if term not in self._time_outs}
        self._endings, self._iterations = Counter(), 0
        if not self._warm:
            self._warm = True
            return None
        taken = next((term for term, share in shares.items() if share >= self._MOST), "")
        least, of, iteration = self._least.get(taken, (1.0, 0, 0))
        scores = self._scores(iteration) if least <= self._FEW else None
        for term, share in shares.items():
            if term not in self._least or share < self._least[term][0]:
                self._least[term] = share, episodes, seen.iterations
        if not self.is_due(scores is not None) or scores is None:
            return None
        return self.detection(
            f"{taken} ended {shares[taken]:.0%} of {episodes} training episodes, against {least:.0%} of {of} near "
            f"iteration {iteration}, while held-out success went from {scores[0]:.0%} to {scores[1]:.0%}",
            "look at what the policy does (play.py shows it): if the end of an episode saves it a penalty, change "
            "env.rewards.TERM.weight; if the simulation breaks, lower env.sim.dt",
        )

    def _scores(self, since: int) -> tuple[float, float] | None:
        """Return the held-out success until an iteration and now; ``None`` if it rose, or is unknown."""
        before = [each.share for each in self.checks if each.iteration <= since]
        if not before or len(before) == len(self.checks):
            return None
        now = self.checks[-1].share
        return None if now > max(before) + self._RISE else (max(before), now)
