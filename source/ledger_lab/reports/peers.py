"""Runs in the same surroundings, with the figures that they have in common."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter

from ledger_lab.ledger.meters import Phase
from ledger_lab.reports.time_per_size import TimePerSize, fit_time_per_size
from ledger_lab.reports.workload import Workload

_LEAST_ITERATIONS = 5
"""Shortest run whose times per call are used; shorter runs are dominated by their first steps."""

_LARGEST_RESIDUAL = 0.25
"""Largest relative error of a fit that is still used."""


class Peers:
    """Runs in the same surroundings, in groups.

    Each figure of a group is computed once. If it were computed for each run over all other runs, the time of a report
    would grow with the square of the number of runs.
    """

    def __init__(self, works: Sequence[Workload]) -> None:
        """Sort the runs into groups.

        Args:
            works: Their work; each run occurs once.
        """
        self._groups: defaultdict[object, list[Workload]] = defaultdict(list)
        self._starts_s: defaultdict[object, list[float]] = defaultdict(list)
        self._steps_s: defaultdict[object, list[float]] = defaultdict(list)
        self._fits: dict[object, TimePerSize | None] = {}
        for work in works:
            start_s = work.phase_s(Phase.STARTUP, Phase.COMPILE)
            if work.attempts == 1 and work.iterations and start_s is not None:
                self._starts_s[_start_group(work)].append(start_s)
            if measures(work):
                for group in (step_group(work), update_group(work)):
                    self._groups[group].append(work)
                if (step_s := work.step_s) is not None:
                    self._steps_s[_settings(work)].append(step_s)
        for times_s in (*self._starts_s.values(), *self._steps_s.values()):
            times_s.sort()

    def fit(self, group: object, size: str, time: str) -> TimePerSize | None:
        """Fit a figure over a group of runs, once.

        Args:
            group: What the runs have in common.
            size: Name of the size in :class:`Workload`.
            time: Name of the figure in :class:`Workload`.

        Returns:
            The fit; ``None`` with too few sizes, or if the figures are not near a line.
        """
        key = group, size, time
        if key not in self._fits:
            found = [(getattr(work, size), getattr(work, time)) for work in self._groups.get(group, ())]
            fit = fit_time_per_size([(n, t) for n, t in found if t is not None])
            self._fits[key] = fit if fit is not None and fit.residual <= _LARGEST_RESIDUAL else None
        return self._fits[key]

    def other_starts_s(self, work: Workload) -> tuple[float, int] | None:
        """Return the median start-up time of the other runs of a start group [s], and their number, if there are any.

        Args:
            work: Work of a run with one attempt.
        """
        times_s = self._starts_s.get(_start_group(work), [])
        own_s = work.phase_s(Phase.STARTUP, Phase.COMPILE)
        own = bisect_left(times_s, own_s) if work.iterations and own_s is not None else len(times_s)
        count = len(times_s) - (own < len(times_s))
        if not count:
            return None

        def other_s(place: int) -> float:
            return times_s[place + (place >= own)]

        return (other_s((count - 1) // 2) + other_s(count // 2)) / 2, count

    def steps_s(self, work: Workload) -> Sequence[float]:
        """Return the step times of the runs with the settings of a workload, in ascending order [s]."""
        return self._steps_s.get(_settings(work), [])


def _start_group(work: Workload) -> object:
    """Return what runs have in common whose start-ups are alike."""
    return work.timing, work.slots


def step_group(work: Workload) -> object:
    """Return what runs have in common whose environment steps are alike, whatever their number of environments."""
    return "steps", work.agent, work.graphs, work.timing, work.held_out_slots > 0


def update_group(work: Workload) -> object:
    """Return what runs have in common whose updates are alike, whatever the size of their minibatches.

    Another minibatch size changes the configuration's hash; the same code and overrides give the same network.
    """
    return "updates", work.timing, work.code


_settings = attrgetter("agent", "graphs", "timing", "num_envs", "held_out_slots", "horizon", "epochs", "minibatches")
"""What two runs have in common that did the same work."""


def measures(work: Workload) -> bool:
    """Tell whether a run measured its loop's work, long and undisturbed enough for times per call to be meaningful."""
    return work.iterations >= _LEAST_ITERATIONS and work.attempts == 1 and not work.launch_times
