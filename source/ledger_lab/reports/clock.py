"""When things happened in a run, and where its wall-clock time went: over the whole run, or until a moment of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ledger_lab.ledger import Attempt, CheckpointSaved, PanelResult, PhaseWindow, Run, Telemetry
from ledger_lab.ledger.meters import TRAINING_PHASES, Phase


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A moment of a run, by the clock of one of its attempts."""

    attempt: Attempt
    wall_ns: int
    """Age of the attempt [ns]."""


@dataclass(frozen=True, kw_only=True)
class TimeUntil:
    """What had happened until a moment."""

    passed_ns: int
    """Time of all attempts [ns]."""
    phase_ns: Mapping[str, int]
    """Nanoseconds per phase. They sum to :attr:`passed_ns`, unless rows are missing."""
    split_ns: int
    """How much of the time lies in the window that the moment divides [ns]."""
    env_steps: int
    """Environment steps that the learner had trained on, over all processes."""


def phase_times(run: Run) -> Counter[str]:
    """Return nanoseconds per phase over all attempts; they sum to the attempts' wall-clock time.

    Args:
        run: The run.
    """
    total: Counter[str] = Counter()
    for attempt in run.attempts:
        total.update(_attempt_times(run, attempt))
    return total


def time_until(run: Run, moment: Moment) -> TimeUntil:
    """Return what had happened until a moment.

    The window that the moment falls into is not split by its rows. Its first part, up to the moment, counts as
    ``evaluate`` as far as the whole window has so much of it, because a score is written when its panel has ended. The
    rest of this part counts for the window's training phases, in their order, again as far as it has so much of them.

    Args:
        run: The run.
        moment: The moment.
    """
    number = moment.attempt.number
    until = replace(run, attempts=tuple(each for each in run.attempts if each.number <= number))
    total: Counter[str] = Counter()
    for attempt in until.attempts[:-1]:
        total.update(_attempt_times(until, attempt))
    windows = moment.attempt.windows
    before = [window for window in windows if window.wall_ns <= moment.wall_ns]
    for window in before:
        total.update(window.phase_ns)
    after = next((window for window in windows if window.wall_ns > moment.wall_ns), None)
    begun_ns = moment.wall_ns - (before[-1].wall_ns if before else 0)
    total.update(_part_of(after, begun_ns))
    trained = [w.env_steps for a, w in until.windows if a.number < number] + [w.env_steps for w in before]
    return TimeUntil(
        passed_ns=sum(attempt.wall_ns for attempt in until.attempts[:-1]) + moment.wall_ns,
        phase_ns=total,
        split_ns=begun_ns,
        env_steps=max(trained, default=0),
    )


def _part_of(window: PhaseWindow | None, part_ns: int) -> Counter[str]:
    """Return the first part of a window per phase [ns]; less than this part if the window has not so much of them."""
    found: Counter[str] = Counter()
    if window is None:
        return found
    for phase in (Phase.EVALUATE, *(phase for phase in Phase if phase in TRAINING_PHASES)):
        found[phase] = min(part_ns, window.phase_ns.get(phase, 0))
        part_ns -= found[phase]
    return found


def window_times(run: Run, attempt: Attempt, window: PhaseWindow) -> Mapping[str, int]:
    """Return nanoseconds per phase of a window; what a later attempt did again counts as ``restart``."""
    return {Phase.RESTART: sum(window.phase_ns.values())} if run.is_lost(attempt, window) else window.phase_ns


def last_times(run: Run, attempt: Attempt) -> Mapping[str, int]:
    """Return nanoseconds per phase of an attempt after its last window.

    A killed attempt may have written rows after its last window, and an attempt that ended takes a while to exit. If
    the first process could not write its end, another process did, by its own clock.
    """
    ended_ns = attempt.wall_ns if attempt.ended is None else max(attempt.ended.wall_ns, attempt.sums.wall_ns)
    rest = Phase.RESTART if run.was_resumed(attempt) else Phase.UNATTRIBUTED
    times = {rest: ended_ns - attempt.sums.wall_ns, Phase.SHUTDOWN: attempt.wall_ns - ended_ns}
    return {phase: spent_ns for phase, spent_ns in times.items() if spent_ns}


def _attempt_times(run: Run, attempt: Attempt) -> Counter[str]:
    """Return nanoseconds per phase of a whole attempt; they sum to its wall-clock time."""
    if len(run.attempts) == 1:  # no window needs to be read
        total = Counter(attempt.sums.phase_ns)
    else:
        total = Counter()
        for window in attempt.windows:
            total.update(window_times(run, attempt, window))
    total.update(last_times(run, attempt))
    return total


def attempt_starts_s(run: Run) -> dict[int, float]:
    """Return the seconds of all earlier attempts, by attempt number [s].

    A row's ``wall_ns`` counts from the start of its own attempt. A run's wall-clock time is the sum of its attempts. It
    leaves out the pauses between them, in which nothing is billed.
    """
    starts: dict[int, float] = {}
    passed_ns = 0
    for attempt in run.attempts:
        starts[attempt.number] = passed_ns / 1e9
        passed_ns += attempt.wall_ns
    return starts


def saved_at_s(run: Run) -> dict[str, float]:
    """Return when checkpoints were saved, by path [s]; if a resumed run saved a path twice, the later time."""
    starts = attempt_starts_s(run)
    return {
        saved.path: starts[attempt.number] + saved.wall_ns / 1e9
        for attempt in run.attempts
        for saved in attempt.of(CheckpointSaved)
    }


def target_moment(judged: Iterable[tuple[Attempt | None, PanelResult]]) -> Moment | None:
    """Return when a policy was confirmed to reach the target during the training; ``None`` if none was.

    Args:
        judged: Panel results, see :attr:`ledger_lab.ledger.Run.judged`.
    """
    found = ((attempt, row) for attempt, row in judged if attempt is not None and row.confirms)
    return next((Moment(attempt=attempt, wall_ns=row.wall_ns) for attempt, row in found), None)


def seconds_to_target(run: Run, judged: Iterable[tuple[Attempt | None, PanelResult]]) -> float | None:
    """Return the wall-clock time until a policy was confirmed to reach the target [s], over all attempts.

    Args:
        run: The run.
        judged: Its panel results, see :attr:`ledger_lab.ledger.Run.judged`.

    Returns:
        ``None`` if no policy was confirmed.
    """
    moment = target_moment(judged)
    return None if moment is None else attempt_starts_s(run)[moment.attempt.number] + moment.wall_ns / 1e9


def sampled(attempt: Attempt) -> Iterator[tuple[Telemetry, float | None]]:
    """Yield the telemetry of an attempt, each row with the time over which its processor seconds were counted.

    The first sample of the host covers the time since the attempt began; each later sample covers the time since the
    sample before.

    Args:
        attempt: The attempt.

    Yields:
        A row and its time [s]; the time is ``None`` if the row has no host sample.
    """
    for journal in attempt.journals:
        before_ns = 0
        for row in journal.of(Telemetry):
            if row.host is None:
                yield row, None
                continue
            yield row, (row.wall_ns - before_ns) / 1e9
            before_ns = row.wall_ns
