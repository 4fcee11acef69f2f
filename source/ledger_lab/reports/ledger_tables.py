"""The ledger as flat tables, for SQL and exports. Each column is declared once, with its type, reader and meaning."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NamedTuple

from ledger_lab.ledger import (
    FIGURES,
    Attempt,
    AttemptStarted,
    CheckpointSaved,
    DeviceSample,
    Health,
    HostSample,
    PanelResult,
    PhaseWindow,
    Row,
    Run,
    ShutdownEnded,
    SupervisionStarted,
    Telemetry,
)
from ledger_lab.reports.cohort_summary import CohortSummary, Contents
from ledger_lab.reports.columns import Column, column, sql_columns
from ledger_lab.reports.facts import RunFacts, last_times, window_times
from ledger_lab.reports.summary import RunSummary
from ledger_lab.reports.usage import RoomSummary, summarize_room
from ledger_lab.units import in_seconds


@dataclass(frozen=True)
class Table:
    """A table, and how it is filled."""

    name: str
    meaning: str
    columns: Sequence[Column[Any]]
    rows: Callable[[Contents], Iterator[Any]]
    """Yields what the columns read."""


class _Line(NamedTuple):
    """What a row of a table is made of."""

    run: Run
    attempt: Any = None
    place: int | None = None
    """Among the rows of the same kind in the attempt, or in the run."""
    row: Any = None
    part: Any = None
    """A part of that row, if each part is a row of the table."""


def _attempts(contents: Contents) -> Iterator[tuple[Run, Attempt]]:
    """Yield every attempt with its run."""
    for run in contents.runs:
        for attempt in run.attempts:
            yield run, attempt


def _run_rows(contents: Contents) -> Iterator[_Line]:
    """Yield runs with their figures."""
    for run, summary in zip(contents.runs, contents.summaries, strict=True):
        yield _Line(run, row=summary)


def _attempt_rows(contents: Contents) -> Iterator[_Line]:
    """Yield attempts with their use of the physics engine's capacities."""
    for run, attempt in _attempts(contents):
        yield _Line(run, attempt, row=summarize_room([attempt]), part=attempt.first_start and attempt.first_start.job)


def _window_rows(contents: Contents) -> Iterator[_Line]:
    """Yield phase windows, each with the end of the window before it [ns]."""
    for run, attempt in _attempts(contents):
        before_ns = 0
        for place, window in enumerate(attempt.windows):
            yield _Line(run, attempt, place, window, before_ns)
            before_ns = window.wall_ns


class _PhaseTime(NamedTuple):
    """Time in a phase, within a window or after the last one."""

    phase: str
    spent_ns: int
    wall_ns: int
    bound_ns: int | None = None


def _phase_rows(contents: Contents) -> Iterator[_Line]:
    """Yield the phases of each window, and of the time after the last window: together, the time of the attempt."""
    for run, attempt in _attempts(contents):
        for place, window in enumerate(attempt.windows):
            bound_ns = None if run.is_lost(attempt, window) else window.device_bound_ns
            for phase, spent_ns in window_times(run, attempt, window).items():
                bound = None if bound_ns is None else bound_ns.get(phase, 0)
                yield _Line(run, attempt, place, window, _PhaseTime(phase, spent_ns, window.wall_ns, bound))
        for phase, spent_ns in last_times(run, attempt).items():
            yield _Line(run, attempt, part=_PhaseTime(phase, spent_ns, attempt.wall_ns))


def _own_rows(
    kind: type[Row], parts: Callable[[Any], Iterable[Any]] = lambda row: (None,)
) -> Callable[[Contents], Iterator[_Line]]:
    """Return a function that yields all rows of one kind from the attempts, or their parts."""

    def rows(contents: Contents) -> Iterator[_Line]:
        for run, attempt in _attempts(contents):
            for place, row in enumerate(attempt.of(kind)):
                for part in parts(row):
                    yield _Line(run, attempt, place, row, part)

    return rows


def _result_rows(contents: Contents) -> Iterator[_Line]:
    """Yield scores of checkpoints."""
    for run in contents.runs:
        for place, result in enumerate(run.results):
            yield _Line(run, place=place, row=result)


def _episode_rows(contents: Contents) -> Iterator[_Line]:
    """Yield held-out episodes, each with its place in its panel."""
    for each in _result_rows(contents):
        for episode in range(each.row.outcomes.episodes):
            yield each._replace(part=episode)


def _utc(time: datetime) -> datetime:
    """Return a time in UTC without its zone, as SQL's TIMESTAMP expects."""
    return time.astimezone(UTC).replace(tzinfo=None)


def _began_from(of: _Line) -> str | None:
    """Return the run and the checkpoint that a run began with."""
    began = of.run.declared.began_from
    return "{run_id}/{checkpoint}".format(**began) if began else None


def _host(of: _Line) -> str | None:
    """Return the machine of the first start in an attempt, by a process or a supervisor."""
    hosts = [start.host for start in of.attempt.of(AttemptStarted)]
    hosts += [start.host for start in of.attempt.of(SupervisionStarted)]
    return hosts[0] if hosts else None


def _figure_reader(name: str) -> Callable[[_Line], float | None]:
    """Return a function that reads a training figure from a window."""
    return lambda of: of.row.figures.get(name)


def _outcome(declaration: str) -> Column[_Line]:
    """Declare a column that is a field of the outcomes, from the name of the field on."""
    name = declaration.split()[0]
    return column(declaration, lambda of: getattr(of.row.outcomes, name)[of.part])


_ROW = attrgetter("row")
_ROW_RUN: Column[Any] = column("run_id VARCHAR", "run.run_id")
_ROW_ATTEMPT: Column[Any] = column("attempt BIGINT from 1", "attempt.number")
_ROW_WALL: Column[Any] = column("wall_s DOUBLE age of the attempt's process [s]", lambda of: of.row.wall_ns / 1e9)
_OF_ATTEMPT = (_ROW_RUN, _ROW_ATTEMPT)

_RUNS: list[Column[_Line]] = [
    *sql_columns(RunSummary, _ROW),
    column(
        "declared_instance VARCHAR entry of the price book that the run declared",
        lambda of: of.row.declared_price["instance"],
    ),
    column("declared_usd_per_hour DOUBLE its price [USD/h]", lambda of: of.row.declared_price["usd_per_hour"]),
    column(
        "heldout_low DOUBLE lower end of the interval of heldout_success, 95 %; assumes that a proof is right",
        lambda of: (of.row.heldout_interval or (None, None))[0],
    ),
    column("heldout_high DOUBLE upper end of interval", lambda of: (of.row.heldout_interval or (None, None))[1]),
    column(
        "iterations BIGINT iterations completed, without those that an interruption undid",
        lambda of: RunFacts(of.run).updates,
    ),
    column("attempts BIGINT", lambda of: len(of.run.attempts)),
    column("began_from VARCHAR run and checkpoint whose networks it began with", _began_from),
    column("experiment VARCHAR", "run.declared.experiment"),
    column("max_iterations BIGINT", "run.declared.max_iterations"),
    column("horizon BIGINT environment steps per iteration and environment", "run.declared.horizon"),
    column("git_commit VARCHAR", lambda of: of.run.declared.git.get("commit")),
    column("accelerator VARCHAR", lambda of: of.run.declared.hardware.get("accelerator")),
    column("cpu VARCHAR", lambda of: of.run.declared.hardware.get("cpu")),
    column("declared_at TIMESTAMP", lambda of: _utc(of.run.declared_at)),
    column("directory VARCHAR", lambda of: os.fsencode(of.run.directory).decode(errors="replace")),
]

_ATTEMPTS: list[Column[_Line]] = [
    *_OF_ATTEMPT,
    column("status VARCHAR", "attempt.status"),
    column("reason VARCHAR", "attempt.ended.reason"),
    column("host VARCHAR", _host),
    column("ranks BIGINT processes that wrote a journal", lambda of: len(of.attempt.ranks)),
    column("supervised BOOLEAN whether a supervisor recorded its end", lambda of: of.attempt.supervision is not None),
    column("started_at TIMESTAMP", lambda of: _utc(min(each.first_time for each in of.attempt.journals))),
    column(
        "wall_s DOUBLE its duration, until its processes were gone or its last sign of life [s]",
        lambda of: of.attempt.wall_ns / 1e9,
    ),
    column(
        "scheduler VARCHAR scheduler of the job that it ran in, such as slurm; missing without one",
        "part.engine",
    ),
    column("job VARCHAR id of the job; the tasks of an array share it", "part.job"),
    column("job_index BIGINT index of the training in its plan, and of the array task", "part.index"),
    column("job_restarts BIGINT how often the scheduler had started the job again", "part.restarts"),
    column("job_partition VARCHAR partition or queue of the job", "part.partition"),
    column("job_nodes VARCHAR names of its nodes", lambda of: None if of.part is None else ", ".join(of.part.nodes)),
    column("queue_s DOUBLE time that it waited for this start; not billed [s]", "part.queue_s"),
    column("iterations BIGINT iterations completed", "attempt.sums.iterations"),
    column("env_steps BIGINT", "attempt.sums.env_steps"),
    column("peak_host_memory_bytes BIGINT", "attempt.ended.peak_host_memory_bytes"),
    column("peak_gpu_memory_bytes BIGINT", "attempt.ended.peak_gpu_memory_bytes"),
    *sql_columns(ShutdownEnded, attrgetter("attempt.shutdown"), but=["wall_ns"]),
    *sql_columns(RoomSummary, _ROW),
]

_ITERATIONS: list[Column[_Line]] = [
    *_OF_ATTEMPT,
    column("window_index BIGINT place among the windows of its attempt, from 0", "place"),
    *sql_columns(PhaseWindow, _ROW, but=["wall_ns"]),
    column("wall_s DOUBLE age of the attempt's process at its end [s]", lambda of: of.row.wall_ns / 1e9),
    column("window_s DOUBLE its length [s]", lambda of: (of.row.wall_ns - of.part) / 1e9),
    *(column(f"{name} DOUBLE {meaning}", _figure_reader(name)) for name, meaning in FIGURES.items()),
    column("non_finite VARCHAR names of figures that were not finite", lambda of: ", ".join(of.row.non_finite) or None),
    column("lost BOOLEAN whether a later attempt repeated it", lambda of: of.run.is_lost(of.attempt, of.row)),
]

_PHASES: list[Column[_Line]] = [
    *_OF_ATTEMPT,
    column("window_index BIGINT joins iterations; missing after the last window", "place"),
    column("iteration BIGINT", "row.iteration"),
    column("wall_s DOUBLE age of the attempt's process at the end of this time [s]", lambda of: of.part.wall_ns / 1e9),
    column("phase VARCHAR its name; restart for all work that a later attempt repeated", "part.phase"),
    column(
        "seconds DOUBLE time in the phase [s]; over an attempt they sum to its wall_s, over a window to its length",
        lambda of: of.part.spent_ns / 1e9,
    ),
    column(
        "device_bound_s DOUBLE part of it that a GPU determined, because the GPU finished its work after the processor "
        "had left the window [s]; missing without --timing events",
        lambda of: in_seconds(of.part.bound_ns),
    ),
]

_CHECKPOINTS: list[Column[_Line]] = [
    *_OF_ATTEMPT,
    *sql_columns(CheckpointSaved, _ROW, but=["wall_ns", "train_ns", "evaluate_ns"]),
    _ROW_WALL,
    column(
        "train_s DOUBLE time of the run in the training phases up to its iteration [s]",
        lambda of: in_seconds(of.row.train_ns),
    ),
    column(
        "evaluate_s DOUBLE time of the run in the phase evaluate up to its iteration [s]",
        lambda of: in_seconds(of.row.evaluate_ns),
    ),
]

_ENDINGS: list[Column[_Line]] = [
    *_OF_ATTEMPT,
    column("checkpoint VARCHAR joins checkpoints.path", "row.path"),
    column("iteration BIGINT iterations completed when the checkpoint was saved", "row.iteration"),
    column("ended_by VARCHAR a termination term or unstable", lambda of: of.part[0]),
    column("episodes BIGINT training episodes since the last checkpoint of the attempt", lambda of: of.part[1]),
]

_PANEL_RESULTS: list[Column[_Line]] = [
    column("result BIGINT index among the results of its run, from 0", "place"),
    *sql_columns(PanelResult, _ROW, but=["wall_ns"]),
    column("successes BIGINT", "row.outcomes.successes"),
    column("episodes BIGINT", "row.outcomes.episodes"),
    column(
        "passes BOOLEAN whether it reached them; missing for an evaluation",
        lambda of: None if of.row.purpose == "evaluation" else of.row.passes,
    ),
    column("proves BOOLEAN whether it proves that the checkpoint reaches the target", "row.proves"),
    column(
        "changed_code VARCHAR code that had changed since the declaration; missing if none had",
        lambda of: ", ".join(of.row.changed_code) or None,
    ),
    column("wall_s DOUBLE age of the scoring process when the last episode ended [s]", lambda of: of.row.wall_ns / 1e9),
]

_EPISODES: list[Column[_Line]] = [
    _ROW_RUN,
    column("result BIGINT joins panel_results", "place"),
    column("checkpoint VARCHAR", "row.checkpoint"),
    column("purpose VARCHAR", "row.purpose"),
    _outcome("cell VARCHAR"),
    _outcome("seed BIGINT"),
    _outcome("success BOOLEAN success at the end of the episode"),
    _outcome("success_any BOOLEAN success at its best moment"),
    _outcome("steps BIGINT"),
    _outcome("episode_return DOUBLE undiscounted sum of rewards"),
    _outcome("ended_by VARCHAR horizon, non_finite, capacity, unstable or a termination term"),
    _outcome("fingerprint VARCHAR hash of the episode's trajectory; equal only if two episodes are equal bit for bit"),
]

_TELEMETRY: list[Column[_Line]] = [
    *_OF_ATTEMPT,
    column("sample BIGINT place among the samples of its attempt, from 0", "place"),
    _ROW_WALL,
    *sql_columns(HostSample, attrgetter("row.host")),
    column("device VARCHAR the accelerator's UUID", "part.uuid"),
    *sql_columns(DeviceSample, attrgetter("part"), but=["uuid"]),
]

_HEALTH: list[Column[_Line]] = [*_OF_ATTEMPT, *sql_columns(Health, _ROW, but=["wall_ns"]), _ROW_WALL]

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table("runs", "one row per declared run, with every figure of the report", _RUNS, _run_rows),
        Table("attempts", "one row per attempt of a run", _ATTEMPTS, _attempt_rows),
        Table(
            "iterations",
            "one row per phase window of an attempt's first process: as a rule, per iteration",
            _ITERATIONS,
            _window_rows,
        ),
        Table(
            "phases",
            "one row per phase within a phase window of an attempt's first process, and after its last window",
            _PHASES,
            _phase_rows,
        ),
        Table("checkpoints", "one row per saved policy", _CHECKPOINTS, _own_rows(CheckpointSaved)),
        Table(
            "endings",
            "one row per checkpoint and termination of training episodes; missing if they were not counted",
            _ENDINGS,
            _own_rows(CheckpointSaved, lambda row: (row.endings or {}).items()),
        ),
        Table("panel_results", "one row per score of a checkpoint on a panel", _PANEL_RESULTS, _result_rows),
        Table("episodes", "one row per held-out episode of a panel result", _EPISODES, _episode_rows),
        Table(
            "telemetry",
            "one row per sample and accelerator; without accelerators, one row per sample of the host",
            _TELEMETRY,
            _own_rows(Telemetry, lambda row: row.devices or (None,)),
        ),
        Table("health", "one row per health event", _HEALTH, _own_rows(Health)),
        Table(
            "cohorts",
            "one row per cohort, task, panel and target",
            list(sql_columns(CohortSummary, lambda cohort: cohort)),
            lambda contents: iter(contents.cohorts),
        ),
    )
}
"""All tables by their names."""
