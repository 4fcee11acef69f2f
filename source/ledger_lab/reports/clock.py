"""Converts times of one attempt to times of its run, and gives the interval that each telemetry sample covers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ledger_lab.ledger import Attempt, CheckpointSaved, PanelResult, Run, Telemetry
from ledger_lab.reports.phase_times import Moment


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
