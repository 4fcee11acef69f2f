"""The rows of the ledger's flat tables, in the order of their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from typing import Any

from ledger_lab.ledger import (
    FIGURES,
    Attempt,
    AttemptStarted,
    CheckpointSaved,
    Health,
    Run,
    SupervisionStarted,
    Telemetry,
)
from ledger_lab.reports.load import RoomSummary, summarize_room
from ledger_lab.reports.summary import CohortSummary, RunSummary


@dataclass(frozen=True)
class Contents:
    """The requested runs of a ledger, with their figures."""

    runs: Sequence[Run]
    summaries: Sequence[RunSummary]
    """One per run, in the same order."""
    cohorts: Sequence[CohortSummary]


def _seconds(nanoseconds: int) -> float:
    """Return nanoseconds as seconds."""
    return nanoseconds / 1e9


def _attempts(contents: Contents) -> Iterator[tuple[str, Attempt]]:
    """Yield every attempt with its run's id."""
    for run in contents.runs:
        for attempt in run.attempts:
            yield run.declared.run_id, attempt


def _progress(attempt: Attempt) -> tuple[int, int]:
    """Return the iterations and the environment steps that an attempt completed."""
    return attempt.sums.iterations, attempt.sums.env_steps


def attempt_rows(contents: Contents) -> Iterator[tuple[Any, ...]]:
    """Yield attempts."""
    for run_id, attempt in _attempts(contents):
        starts: list[AttemptStarted | SupervisionStarted] = [*attempt.of(AttemptStarted)]
        starts += attempt.of(SupervisionStarted)
        ended, shutdown, room = attempt.ended, attempt.shutdown, summarize_room([attempt])
        yield (
            run_id,
            attempt.number,
            str(attempt.status),
            ended.reason if ended else None,
            starts[0].host if starts else None,
            len(attempt.ranks),
            attempt.supervision is not None,
            _utc(min(journal.first_time for journal in attempt.journals)),
            _seconds(attempt.wall_ns),
            *_progress(attempt),
            ended.peak_host_memory_bytes if ended else None,
            ended.peak_gpu_memory_bytes if ended else None,
            shutdown.exit_code if shutdown else None,
            shutdown.signal if shutdown else None,
            shutdown.overdue if shutdown else None,
            *(astuple(room) if room else [None] * len(fields(RoomSummary))),
        )


def iteration_rows(contents: Contents) -> Iterator[tuple[Any, ...]]:
    """Yield phase windows, as a rule one per iteration."""
    for run in contents.runs:
        for attempt in run.attempts:
            before_ns = 0
            for index, window in enumerate(attempt.windows):
                yield (
                    run.declared.run_id,
                    attempt.number,
                    index,
                    window.iteration,
                    window.env_steps,
                    window.wall_ns / 1e9,
                    (window.wall_ns - before_ns) / 1e9,
                    *map(window.figures.get, FIGURES),
                    ", ".join(window.non_finite) if window.non_finite else None,
                    run.is_lost(attempt, window),
                )
                before_ns = window.wall_ns


def phase_rows(contents: Contents) -> Iterator[tuple[Any, ...]]:
    """Yield the phases of each window."""
    for run_id, attempt in _attempts(contents):
        number = attempt.number
        for index, window in enumerate(attempt.windows):
            iteration, wall_s = window.iteration, window.wall_ns / 1e9
            for phase, spent_ns in window.phase_ns.items():
                yield run_id, number, index, iteration, wall_s, phase, spent_ns / 1e9


def checkpoint_rows(contents: Contents) -> Iterator[tuple[Any, ...]]:
    """Yield saved policies."""
    for run_id, attempt in _attempts(contents):
        for saved in attempt.of(CheckpointSaved):
            yield (
                run_id,
                attempt.number,
                saved.path,
                saved.sha256,
                saved.size_bytes,
                saved.iteration,
                saved.env_steps,
                _seconds(saved.wall_ns),
            )


def result_rows(contents: Contents) -> Iterator[tuple[Any, ...]]:
    """Yield scores of checkpoints."""
    for run in contents.runs:
        for index, result in enumerate(run.results):
            yield (
                run.declared.run_id,
                index,
                result.checkpoint,
                result.checkpoint_sha256,
                result.panel,
                result.panel_id,
                result.purpose,
                result.confirmation,
                result.needed,
                result.outcomes.successes,
                result.outcomes.episodes,
                None if result.purpose == "evaluation" else result.passes,
                result.confirms,
                result.invalid,
                result.exactness,
                result.device,
                _seconds(result.wall_ns),
            )


def episode_rows(contents: Contents) -> Iterator[tuple[Any, ...]]:
    """Yield held-out episodes."""
    for run in contents.runs:
        run_id = run.declared.run_id
        for index, result in enumerate(run.results):
            outcomes = result.outcomes
            columns = (
                outcomes.cell,
                outcomes.seed,
                outcomes.success,
                outcomes.success_any,
                outcomes.steps,
                outcomes.episode_return,
                outcomes.ended_by,
                outcomes.fingerprint,
            )
            for episode in zip(*columns, strict=True):
                yield (run_id, index, result.checkpoint, result.purpose, *episode)


def telemetry_rows(contents: Contents) -> Iterator[tuple[Any, ...]]:
    """Yield samples of host and accelerators."""
    for run_id, attempt in _attempts(contents):
        for index, row in enumerate(attempt.of(Telemetry)):
            host = row.host
            taken = (
                (None, None, None, None)
                if host is None
                else (host.cpu_s, host.busiest_thread, host.memory_bytes, host.available_bytes)
            )
            for device in row.devices or (None,):
                meters = (
                    (None,) * 7
                    if device is None
                    else (
                        device.uuid,
                        device.utilization,
                        device.memory_used_bytes,
                        device.power_w,
                        device.energy_mj,
                        device.temperature_c,
                        device.sm_clock_mhz,
                    )
                )
                yield (run_id, attempt.number, index, row.wall_ns / 1e9, *taken, *meters)


def health_rows(contents: Contents) -> Iterator[tuple[Any, ...]]:
    """Yield health events."""
    for run_id, attempt in _attempts(contents):
        for row in attempt.of(Health):
            yield (
                run_id,
                attempt.number,
                row.event,
                row.iteration,
                _seconds(row.wall_ns),
                row.evidence,
                row.advice,
                row.stops,
            )


def run_rows(contents: Contents, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield runs: the named fields of their summaries, and fields of their declarations."""
    for run, summary in zip(contents.runs, contents.summaries, strict=True):
        low, high = summary.heldout_interval or (None, None)
        declared = run.declared
        yield (
            *[_plain(getattr(summary, name)) for name in names],
            summary.declared_price["instance"],
            summary.declared_price["usd_per_hour"],
            low,
            high,
            max((_progress(attempt)[0] for attempt in run.attempts), default=0),
            len(run.attempts),
            "{run_id}/{checkpoint}".format(**declared.began_from) if declared.began_from else None,
            declared.experiment,
            declared.max_iterations,
            declared.horizon,
            declared.git.get("commit"),
            declared.hardware.get("accelerator"),
            declared.hardware.get("cpu"),
            _utc(run.declared_at),
            str(run.directory),
        )


def cohort_rows(contents: Contents, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the named fields of cohorts."""
    for cohort in contents.cohorts:
        yield tuple(_plain(getattr(cohort, name)) for name in names)


def _plain(value: Any) -> Any:
    """Return a value without its enumeration."""
    return str(value) if isinstance(value, str) else value


def _utc(time: datetime) -> datetime:
    """Return a time in UTC without its zone, as SQL's TIMESTAMP expects."""
    return time.astimezone(UTC).replace(tzinfo=None)
