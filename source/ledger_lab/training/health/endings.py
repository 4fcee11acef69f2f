"""Detector over the terminations that end training episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from ledger_lab.ledger.health import Event
from ledger_lab.training.health.events import Detection
from ledger_lab.training.health.held_out import Screening
from ledger_lab.training.health.iteration import Debounce, Iteration


@dataclass(frozen=True)
class _Block:
    """The training episodes that ended within successive iterations."""

    iteration: int
    """The last of these iterations."""
    endings: Counter[str]
    """Episodes by the termination that ended them."""

    def share(self, term: str) -> float:
        """Return the share of the episodes that a termination ended."""
        return self.endings[term] / self.endings.total()


class TerminationTakeover:
    """One termination ends nearly all training episodes, and ended few before, while held-out success did not rise.

    Time-outs are no such terminations. A policy may have found that the end of an episode saves it a penalty, or that
    the simulation breaks in a way that earns reward.

    Episodes are counted in blocks. A block takes at least as long as the longest episode, so that each block has
    episodes of all lengths. The first block of a training is left out: libraries begin with episodes of random ages, so
    that time-outs are too frequent at first. The event needs two successive blocks, because a policy that learns may
    fall more often for a while.
    """

    _MOST, _FEW = 0.9, 0.5
    """Share of the episodes from which a termination ends nearly all of them, and up to which it ends few."""
    _EPISODES = 100
    """Fewest episodes of a block: the standard deviation of a share of 0.9 is then 0.03."""
    _RISE = 0.05
    """Smallest rise of the held-out success that counts as learning."""

    def __init__(self, time_outs: Collection[str], episode_iterations: int) -> None:
        """Start without an episode.

        Args:
            time_outs: Names of the terminations that are time-outs.
            episode_iterations: Iterations that the longest episode takes.
        """
        self._time_outs, self._block_iterations = time_outs, episode_iterations
        self._debounce = Debounce(patience=2, calm=2)
        self._endings: Counter[str] = Counter()
        self._iterations = 0
        self._warm = False
        self._least: dict[str, _Block] = {}
        """The block in which a termination ended the smallest share of the episodes, by termination."""
        self._screenings: list[Screening] = []

    def screened(self, latest: Screening) -> None:
        """Remember the held-out success of a policy.

        Args:
            latest: Score of the newest panel.
        """
        self._screenings.append(latest)

    def look(self, seen: Iteration) -> Detection | None:
        """Examine an iteration."""
        if seen.endings is None:
            return None
        self._endings.update(seen.endings)
        self._iterations += 1
        if self._iterations < self._block_iterations or self._endings.total() < self._EPISODES:
            return None
        block = _Block(seen.iterations, self._endings)
        self._endings, self._iterations = Counter(), 0
        if not self._warm:
            self._warm = True
            return None
        terms = block.endings.keys() - set(self._time_outs)
        taken = next((term for term in terms if block.share(term) >= self._MOST), None)
        least = None if taken is None else self._least.get(taken)
        scores = None if least is None or taken is None or least.share(taken) > self._FEW else self._scores(least)
        for term in terms:
            if term not in self._least or block.share(term) < self._least[term].share(term):
                self._least[term] = block
        if not self._debounce.should_report(scores is not None) or scores is None or least is None or taken is None:
            return None
        before, now = scores
        return Detection(
            Event.TERMINATION_TAKEOVER,
            f"{taken} ended {block.share(taken):.0%} of {block.endings.total()} training episodes, against "
            f"{least.share(taken):.0%} of {least.endings.total()} near iteration {least.iteration}, while held-out "
            f"success went from {before:.0%} to {now:.0%}",
            "look at what the policy does (play.py shows it): if the end of an episode saves it a penalty, change "
            "env.rewards.TERM.weight; if the simulation breaks, lower env.sim.dt",
        )

    def _scores(self, since: _Block) -> tuple[float, float] | None:
        """Return the held-out success until the end of a block and now; ``None`` if it rose, or is unknown."""
        before = [each.share for each in self._screenings if each.iteration <= since.iteration]
        if not before or len(before) == len(self._screenings):
            return None
        now = self._screenings[-1].share
        return None if now > max(before) + self._RISE else (max(before), now)
