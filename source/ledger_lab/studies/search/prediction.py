"""Early prediction: whether a training is so far behind that it will hardly reach the target within its cap.

A prediction only advises. :func:`replay` tells what predictions would have done to the trainings of a search so far.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

FEWEST_REACHED: Final = 5
"""Smallest number of trainings that reached the target, from which a prediction is made."""
MOST_WRONG: Final = 0.05
"""Largest share of the ended trainings that may have reached the target if predictions are to be trusted."""


@dataclass(frozen=True, kw_only=True)
class ScoredTraining:
    """A training of a race, with the scores of its policies."""

    trial: int
    seed: int
    started_s: float
    """Time of its declaration, in seconds since 1970 [s]."""
    wall_s: float
    """Its wall-clock time [s]."""
    reached: bool
    """Whether it reached the target within its cap."""
    scores: tuple[tuple[float, float], ...]
    """When its policies were scored, as wall-clock time of the training [s], and their success rates on the panel;
    earlier scores first."""

    def best_by(self, wall_s: float) -> float | None:
        """Return the best success rate until some time; ``None`` before the first score.

        Args:
            wall_s: Wall-clock time of the training [s].
        """
        count = bisect.bisect_right([each for each, _ in self.scores], wall_s)
        return max((success for _, success in self.scores[:count]), default=None)


def is_behind(training: ScoredTraining, others: Sequence[ScoredTraining], wall_s: float) -> bool:
    """Predict that a training will not reach the target within its cap.

    It is behind if its best success rate is lower than that of all others at the same wall-clock time, and if all
    others had been scored by then. In the median stopping rule (Golovin et al. 2017, KDD,
    doi:10.1145/3097983.3098043), the median takes the place of the lowest rate. The lowest rate is used here because
    a training that is slow at first may still reach the target.

    Args:
        training: The training.
        others: Trainings that reached the target within their cap.
        wall_s: Wall-clock time of the training [s].

    Returns:
        Whether it is behind; false with fewer than :data:`FEWEST_REACHED` others.
    """
    own = training.best_by(wall_s)
    theirs = [each.best_by(wall_s) for each in others]
    if own is None or len(others) < FEWEST_REACHED or any(each is None for each in theirs):
        return False
    return own < min(each for each in theirs if each is not None)


@dataclass(frozen=True)
class Replay:
    """What predictions would have done in a search."""

    trainings: int
    """Trainings that began when enough others had reached the target to predict from."""
    ended: int
    """Of these, those that would have been ended."""
    wrong: int
    """Of those that would have been ended, those that reached the target within their cap."""
    saved_s: float
    """Wall-clock time that would not have been spent [s]."""
    wall_s: float
    """Wall-clock time of :attr:`trainings` [s]."""

    @property
    def is_trusted(self) -> bool:
        """Whether at most :data:`MOST_WRONG` of the ended trainings would have reached the target."""
        return self.ended > 0 and self.wrong <= MOST_WRONG * self.ended


def replay(trainings: Sequence[ScoredTraining]) -> Replay:
    """Predict at each score of each training, from the trainings that had reached the target before it began.

    Args:
        trainings: The ended trainings of the race of a search.
    """
    judged = ended = wrong = 0
    saved_s = wall_s = 0.0
    for training in trainings:
        before = [each for each in trainings if each.reached and each.started_s + each.wall_s <= training.started_s]
        if len(before) < FEWEST_REACHED:
            continue
        judged += 1
        wall_s += training.wall_s
        at_s = next((each for each, _ in training.scores if is_behind(training, before, each)), None)
        if at_s is not None:
            ended += 1
            wrong += training.reached
            saved_s += max(0.0, training.wall_s - at_s)
    return Replay(judged, ended, wrong, saved_s, wall_s)
